#pragma once

#include <cstdint>
#include <string>

#include "atp/sim/faults.h"
#include "atp/sim/world.h"

namespace atp::sim {

// What happened in all runs of a set of seeds, so that a set that reached nothing is seen.
struct Tally {
  std::uint64_t runs = 0;
  std::uint64_t runs_with_faults = 0;
  std::uint64_t runs_that_may_fail = 0;  // a worker or a server was lost
  std::uint64_t failed_workers = 0;      // sockets whose operations ended in an error
  std::uint64_t packets = 0;
  std::uint64_t integer_fragments = 0;
  std::uint64_t float_fragments = 0;
  std::uint64_t trees_by_height[4] = {};  // jobs and shards, by the longest route
  Duration longest_after_heal{};          // of runs in which nothing was lost
  FaultCounters faults;
  FaultCounters runs_by_fault;  // runs in which it happened at least once
  Counters<SwitchCounter> switches;
  Counters<ServerCounter> servers;
  Counters<WorkerCounter> workers;

  void add(World& world, Duration after_heal);
  void add(const Tally& other);
  std::string text() const;
};

}  // namespace atp::sim
