#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>

#include "atp/base/rank_set.h"
#include "atp/cli/command/command.h"
#include "atp/cli/sim/job.h"
#include "atp/cli/sim/soak.h"
#include "atp/sim/run_seed.h"

namespace atp {
namespace {

constexpr const char* kSimExamples = R"(Examples:
  atp sim --seed 17
      simulate the world that seed 17 generates: network, jobs and faults
  atp sim --seed 17 --trace
      the same, and print every packet and event
  atp sim --count 100000 --threads 2
      simulate many seeds and print what they covered
  atp sim --ranks 1024
      simulate one all-reduce over racks of 32 ranks, without faults; print its time and memory
  atp sim --cluster cluster.yaml --hosts a1,b1
      simulate one all-reduce on two hosts of a cluster file; print its time and the servers' load
Exit codes: 0 all correct, 1 a wrong sum, 2 not finished in time, something left over, or wrong usage,
  3 a crash, 4 wasteful: all sums correct, but with more packets or time than the world needs,
  5 a node did something that the protocol does not allow.)";

constexpr int kCrashed = 3;
constexpr std::uint64_t kMaxSeeds = 1'000'000'000'000;  // centuries

struct SimOptions {
  std::uint64_t seed = 0;
  std::uint64_t count = 1;
  unsigned threads = 1;
  bool trace = false;
  sim::ClusterShape cluster{.workers = 0};
  SimSiteOptions site;
  std::uint32_t fragments = 0;  // 0: not given
};

constexpr std::chrono::seconds kReportInterval{10};

// The seed that is running, for the message of a crash.
thread_local std::uint64_t current_seed = 0;

void on_crash(int) {
  char line[80];
  const int length = std::snprintf(line, sizeof line, "sim: crashed; replay: atp sim --seed %llu\n",
                                   static_cast<unsigned long long>(current_seed));
  [[maybe_unused]] const auto written = ::write(2, line, static_cast<std::size_t>(length));
  ::_exit(kCrashed);
}

sim::Ending soak(const SimOptions& options) {
  const auto play = [&](std::uint64_t seed, sim::Tally& tally) {
    current_seed = seed;
    return sim::run_seed(seed, options.trace, tally);
  };
  const auto report = [](const std::string& text) { fmt::print(stderr, "{}", text); };
  Soak soak({options.seed, options.count, options.threads}, play, report, kReportInterval);
  const sim::Ending ending = soak.run();
  fmt::print("{}", soak.tally().text());
  return ending;
}

sim::Ending play(SimOptions options) {
  if (options.fragments > 0) {
    options.site.fragments = options.cluster.fragments = options.fragments;
  }
  if (!options.site.file.empty()) return run_site(options.site);
  if (options.cluster.workers > 0) return run_cluster(options.cluster);
  if (options.fragments > 0) throw UsageError("--fragments requires --ranks or --cluster");
  return soak(options);
}

void run_sim(const SimOptions& options) {
  std::signal(SIGABRT, on_crash);
  std::signal(SIGSEGV, on_crash);
  const sim::Ending ending = play(options);
  // The report has been printed.
  if (ending != sim::Ending::kHeld) throw CommandEnd(static_cast<int>(ending));
}

void add_seed_options(const Command& command, SimOptions& options) {
  command.add_option("--seed", options.seed, "First seed").type_name("N").show_default();
  command.add_option("--count", options.count, "Number of seeds, starting with the first")
      .type_name("N")
      .in_range(std::uint64_t{1}, kMaxSeeds)
      .show_default();
  command
      .add_option("--threads", options.threads, "Seeds simulated in parallel, each on one thread")
      .type_name("N")
      .in_range(1U, 256U)
      .show_default();
  command.add_flag("--trace", options.trace, "Print every packet and event of each seed");
}

// For options of a world that no seed draws.
void exclude_seeds(Option option) {
  for (const char* seeds : {"--seed", "--count", "--threads", "--trace"}) option.excludes(seeds);
}

void add_rank_options(const Command& command, SimOptions& options) {
  Option ranks = command
                     .add_option("-n,--ranks", options.cluster.workers,
                                 "Simulate one job of this many ranks instead of a seed")
                     .type_name("N")
                     .in_range(std::size_t{1}, kMaxRanks);
  exclude_seeds(ranks);
  command.add_option("--rack-size", options.cluster.rack_size, "Ranks per rack")
      .type_name("N")
      .in_range(std::size_t{1}, kMaxRanks)
      .needs(ranks)
      .show_default();
}

void add_cluster_options(const Command& command, SimOptions& options) {
  Option cluster =
      command
          .add_option(
              "--cluster", options.site.file,
              "Simulate one job on this cluster file instead of a seed (docs/use/cluster.md)")
          .type_name("FILE")
          .excludes("--ranks");
  exclude_seeds(cluster);
  command
      .add_option("--hosts", options.site.hosts,
                  "Comma-separated hosts of the job (default: all that have ranks)")
      .type_name("NAME,NAME,...")
      .needs(cluster);
  command
      .add_option("--ranks-per-host", options.site.ranks_per_host,
                  "Ranks per host (default: as in the file)")
      .type_name("N")
      .in_range(std::size_t{1}, kMaxRanks)
      .needs(cluster);
}

}  // namespace

void add_sim_command(const Command& program) {
  const Command command = program.add_command(
      "sim", "Simulate a network of the program's own workers, switches and servers");
  command.footer(kSimExamples);
  const auto options = std::make_shared<SimOptions>();
  add_seed_options(command, *options);
  add_rank_options(command, *options);
  add_cluster_options(command, *options);
  command
      .add_option("--fragments", options->fragments,
                  "Fragments per all-reduce (default: 100 with --ranks, 1000 with --cluster)")
      .type_name("N")
      .in_range(1, 1'000'000);
  command.callback([options] { run_sim(*options); });
}

}  // namespace atp
