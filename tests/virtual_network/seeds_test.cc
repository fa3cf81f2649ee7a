#include <cstdio>
#include <cstdlib>
#include <string>

#include "atp/sim/add_counters.h"
#include "tests/virtual_network/scenario.h"

// The swarm: 2,000 seeds, each another network with other jobs and, nine times of ten, other
// faults. Safety holds at every completed operation, and once the faults have stopped everything
// finishes and is given back. A failure prints the command that replays it; a seed that found a bug
// becomes a named scenario, since what a seed draws changes with the drawing. Environment:
//
//   ATP_SEED=17              only this seed
//   ATP_SEEDS=10000          this many seeds, from ATP_SEED (or 0) on: a soak
//   ATP_TRACE=1              with every packet

namespace atp::sim {
namespace {

constexpr std::uint64_t kSeeds = 2000;
constexpr std::uint64_t kChunks = 8;  // so that ctest -j runs several at a time

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSlowdown = 10;  // a sanitizer's run is a tenth of the seeds
#else
constexpr std::uint64_t kSlowdown = 1;
#endif

// What happened in all runs of a chunk.
struct Tally {
  std::uint64_t runs = 0;
  std::uint64_t runs_with_faults = 0;
  std::uint64_t packets = 0;
  std::uint64_t integer_fragments = 0;
  std::uint64_t float_fragments = 0;
  Duration longest_after_heal{};
  FaultCounters faults;
  Counters<SwitchCounter> switches;
  Counters<ServerCounter> servers;
  Counters<WorkerCounter> workers;

  void add(World& world, Duration after_heal);
  void print() const;
};

template <class Enum>
void print_counters(const char* title, const Counters<Enum>& counters) {
  std::printf("  %s:", title);
  counters.for_each([](std::string_view name, std::uint64_t value) {
    if (value == 0) return;
    std::printf(" %.*s %llu", static_cast<int>(name.size()), name.data(),
                static_cast<unsigned long long>(value));
  });
  std::printf("\n");
}

void Tally::add(World& world, Duration after_heal) {
  ++runs;
  packets += world.packets_sent();
  integer_fragments += world.oracle().integer_fragments();
  float_fragments += world.oracle().float_fragments();
  longest_after_heal = std::max(longest_after_heal, after_heal);
  if (world.faults() != FaultCounters{}) ++runs_with_faults;
  add_to(faults, world.faults());
  add_to(switches, world.switch_counters());
  add_to(servers, world.server().counters());
  add_to(workers, world.worker_counters());
}

void Tally::print() const {
  std::printf(
      "  %llu runs, %llu with faults; %llu packets; %llu fragments as integers, %llu as floats; "
      "done at most %.1f ms after the faults stopped\n",
      static_cast<unsigned long long>(runs), static_cast<unsigned long long>(runs_with_faults),
      static_cast<unsigned long long>(packets), static_cast<unsigned long long>(integer_fragments),
      static_cast<unsigned long long>(float_fragments),
      std::chrono::duration<double, std::milli>(longest_after_heal).count());
  print_counters("faults", faults);
  print_counters("switches", switches);
  print_counters("servers", servers);
  print_counters("workers", workers);
}

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

void run_seed(std::uint64_t seed, Tally& tally) {
  World world(draw_plan(seed));
  const bool done = world.run_to_completion();
  const Duration after_heal = world.now().time_since_epoch() - world.plan().heal;
  EXPECT_TRUE(done) << world.unfinished();
  if (done) {
    world.check_release();
    world.check_departure();
  }
  EXPECT_THAT(world.violations(), testing::IsEmpty());
  tally.add(world, after_heal);
}

// Seeds first … first + count − 1; stops at the first that fails.
void run_seeds(std::uint64_t first, std::uint64_t count, Tally& tally) {
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    run_seed(seed, tally);
    if (!testing::Test::HasFailure()) continue;
    ADD_FAILURE() << describe(draw_plan(seed)) << "\nreplay: ATP_TRACE=1 ATP_SEED=" << seed
                  << " build/release/tests_virtual_network_test --gtest_filter=*Seeds*";
    return;
  }
}

// Everything that faults are meant to reach was reached in a chunk of full size.
void expect_reached(const Tally& tally) {
  EXPECT_GT(10 * tally.runs_with_faults, 8 * tally.runs);
  for (std::size_t i = 0; i < FaultCounters::kSize; ++i) {
    EXPECT_GT(tally.faults[static_cast<Fault>(i)], 0) << to_string(static_cast<Fault>(i));
  }
  // The rows of the GRADIENT table (docs/protocol.md §4) that trees of height 1 can reach: workers
  // send DIRECT past the switch, and the sum of several ranks meets no second switch.
  using S = SwitchCounter;
  for (const S row :
       {S::kGradientsSummed, S::kDuplicates, S::kCompleteSumsSent, S::kPartialSumsSent,
        S::kFlushedSumsSent, S::kSweptSumsSent, S::kDuplicatesReemitted, S::kForwardedDetached,
        S::kForwardedLate, S::kForwardedResend, S::kCollisions, S::kReleases, S::kMarks}) {
    EXPECT_GT(tally.switches[row], 0) << to_string(row);
  }
  using P = ServerCounter;
  for (const P row : {P::kFragmentsCompletedByOnePacket, P::kFragmentsCompletedByServer,
                      P::kFragmentsCompletedFloat, P::kParametersRepeated, P::kNacks, P::kFlushes,
                      P::kStatusWaitingFor, P::kStatusUnknownJob, P::kStatusDetached,
                      P::kDropDuplicate, P::kDropComplete, P::kDropIntegerInFloatMode}) {
    EXPECT_GT(tally.servers[row], 0) << to_string(row);
  }
  using W = WorkerCounter;
  for (const W row : {W::kRepeatsPlain, W::kRepeatsResend, W::kRepeatsDirect, W::kRepeatsFloat,
                      W::kTimeouts, W::kLossesInferred, W::kDetachments, W::kReturns,
                      W::kParametersCollided, W::kUnknownJobReceived}) {
    EXPECT_GT(tally.workers[row], 0) << to_string(row);
  }
}

class Seeds : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Seeds, NoWrongSumAndAllFinish) {
  Tally tally;
  if (std::getenv("ATP_SEED") != nullptr || std::getenv("ATP_SEEDS") != nullptr) {
    if (GetParam() == 0) {
      run_seeds(number_from("ATP_SEED", 0), number_from("ATP_SEEDS", 1), tally);
    }
  } else {
    constexpr std::uint64_t kChunk = kSeeds / kChunks / kSlowdown;
    run_seeds(GetParam() * kChunk, kChunk, tally);
    if (!HasFailure() && kSlowdown == 1) expect_reached(tally);
  }
  tally.print();
}

INSTANTIATE_TEST_SUITE_P(VirtualNetwork, Seeds, testing::Range<std::uint64_t>(0, kChunks));

}  // namespace
}  // namespace atp::sim
