#include "atp/cli/sim_cluster.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

namespace atp {
namespace {

// Of this program alone: what getrusage() says includes the process that started it.
long most_memory_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stol(line.substr(6)) / 1024;
  }
  return 0;
}

}  // namespace

sim::Ending run_cluster(const sim::ClusterShape& shape) {
  const auto begin = std::chrono::steady_clock::now();
  const sim::Plan plan = sim::cluster_plan(shape);
  sim::World world(plan);
  sim::Tally tally;
  world.run_to_completion();
  const std::chrono::duration<double, std::milli> simulated = world.now().time_since_epoch();
  const sim::Outcome outcome = sim::run_to_the_end(world, tally);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (outcome.ending != sim::Ending::kHeld) fmt::print(stderr, "{}", outcome.report);
  fmt::print("workers,racks,seconds,mib,packets,simulated_ms,fragments_by_one_packet\n");
  fmt::print("{},{},{:.3f},{},{},{:.3f},{}\n", shape.workers, plan.switches - 1, took.count(),
             most_memory_mib(), world.packets_sent(), simulated.count(),
             world.server().counters()[ServerCounter::kFragmentsCompletedByOnePacket]);
  return outcome.ending;
}

}  // namespace atp
