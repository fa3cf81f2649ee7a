// Plays a run to its end, checks that it did what it must, and adds up many runs.
#include "atp/sim/run_seed.h"

#include <algorithm>
#include <cstdio>

#include "atp/sim/economy.h"

namespace atp::sim {
namespace {

template <class... Arguments>
std::string text_of(const char* format, Arguments... arguments) {
  char line[400];
  std::snprintf(line, sizeof line, format, arguments...);
  return line;
}

template <class Enum>
std::string list(const char* title, const Counters<Enum>& counters) {
  std::string line = text_of("  %s:", title);
  counters.for_each([&](std::string_view name, std::uint64_t value) {
    if (value > 0) line += " " + std::string(name) + " " + std::to_string(value);
  });
  return line + "\n";
}

std::size_t height(const Plan& plan, const JobPlan& job) {
  std::size_t most = 0;
  for (Rank rank = 0; rank < job.world_size; ++rank) {
    most = std::max(most, plan.switches_of(job, rank).size());
  }
  return most;
}

Ending ending_of(const std::string& violation) {
  if (violation.find("wrong sum") != std::string::npos) return Ending::kWrongSum;
  if (violation.find("not allowed by the protocol") != std::string::npos)
    return Ending::kAgainstThePage;
  return Ending::kNotLive;
}

}  // namespace

void Tally::add(World& world, Duration after_heal) {
  ++runs;
  packets += world.packets_sent();
  integer_fragments += world.oracle().integer_fragments();
  float_fragments += world.oracle().float_fragments();
  if (world.passes(std::uint64_t{1} << 32)) ++runs_past_32_bits;
  const FaultCounters happened = world.faults();
  if (happened != FaultCounters{}) ++runs_with_faults;
  faults += happened;
  for (std::size_t i = 0; i < FaultCounters::kSize; ++i) {
    const auto fault = static_cast<Fault>(i);
    if (happened[fault] > 0) runs_by_fault.add(fault);
  }
  bool lossy = false;
  for (std::uint32_t job = 0; job < world.plan().jobs.size(); ++job) {
    const JobPlan& plan = world.plan().jobs[job];
    ++trees_by_height[std::min<std::size_t>(height(world.plan(), plan), 3)];
    lossy |= world.may_fail(job);
    for (Rank rank = 0; rank < plan.world_size; ++rank) {
      waits_for_room += world.application(rank, job).waits_for_room();
      failed_workers += world.may_fail(job) && world.application(rank, job).failed() ? 1 : 0;
    }
  }
  if (lossy) {
    ++runs_that_may_fail;
  } else {
    longest_after_heal = std::max(longest_after_heal, after_heal);
  }
  switches += world.switch_counters();
  servers += world.server_counters();
  workers += world.worker_counters();
}

void Tally::add(const Tally& other) {
  runs += other.runs;
  runs_with_faults += other.runs_with_faults;
  runs_that_may_fail += other.runs_that_may_fail;
  failed_workers += other.failed_workers;
  runs_past_32_bits += other.runs_past_32_bits;
  waits_for_room += other.waits_for_room;
  packets += other.packets;
  integer_fragments += other.integer_fragments;
  float_fragments += other.float_fragments;
  for (std::size_t i = 0; i < 4; ++i) trees_by_height[i] += other.trees_by_height[i];
  longest_after_heal = std::max(longest_after_heal, other.longest_after_heal);
  faults += other.faults;
  runs_by_fault += other.runs_by_fault;
  switches += other.switches;
  servers += other.servers;
  workers += other.workers;
}

std::string Tally::text() const {
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  return text_of("  %llu runs, %llu with faults, %llu that lost a worker or a server\n",
                 number(runs), number(runs_with_faults), number(runs_that_may_fail)) +
         text_of("  trees of height 0: %llu, 1: %llu, 2: %llu, 3: %llu\n",
                 number(trees_by_height[0]), number(trees_by_height[1]), number(trees_by_height[2]),
                 number(trees_by_height[3])) +
         text_of(
             "  %llu packets; %llu fragments as integers, %llu as floats; %llu sockets failed, "
             "as allowed\n",
             number(packets), number(integer_fragments), number(float_fragments),
             number(failed_workers)) +
         text_of(
             "  %llu runs past 2^32 fragments of a stream; %llu waits for room for an operation\n",
             number(runs_past_32_bits), number(waits_for_room)) +
         text_of("  otherwise done at most %.1f ms after the faults stopped\n",
                 std::chrono::duration<double, std::milli>(longest_after_heal).count()) +
         list("runs with fault", runs_by_fault) + list("faults", faults) +
         list("switches", switches) + list("servers", servers) + list("workers", workers);
}

Outcome run_to_the_end(World& world, Tally& tally) {
  const bool done = world.run_to_completion();
  const Duration after_heal = world.now().time_since_epoch() - world.plan().heal;
  Outcome outcome;
  std::vector<std::string> wasted;
  if (done) {
    wasted = wastes(world, world.now().time_since_epoch());
    world.check_release();
    world.check_departure();
  } else {
    outcome.ending = Ending::kNotLive;
    outcome.report = "not finished in time:\n" + world.unfinished();
  }
  for (const std::string& violation : world.violations()) {
    const Ending ending = ending_of(violation);
    if (ending == Ending::kWrongSum || outcome.ending == Ending::kHeld) outcome.ending = ending;
    outcome.report += violation + "\n";
  }
  for (const std::string& waste : wasted) {
    if (outcome.ending == Ending::kHeld) outcome.ending = Ending::kWasteful;
    outcome.report += waste + "\n";
  }
  tally.add(world, after_heal);
  return outcome;
}

Outcome run_seed(std::uint64_t seed, bool trace, Tally& tally) {
  World world(draw_plan(seed));
  world.set_trace(trace);
  return run_to_the_end(world, tally);
}

std::string replay_line(std::uint64_t seed) {
  return "replay: build/release/bin/atp sim --trace --seed " + std::to_string(seed);
}

}  // namespace atp::sim
