#pragma once

#include <cstdint>
#include <string>

#include "atp/sim/faults.h"
#include "atp/sim/world.h"

namespace atp::sim {

// The events in all runs of a set of seeds, to show which cases the set has reached.
struct Tally {
  std::uint64_t runs = 0;
  std::uint64_t runs_with_faults = 0;
  std::uint64_t runs_that_may_fail = 0;  // a worker or a server was lost
  std::uint64_t failed_workers = 0;      // sockets whose operations ended with an error
  std::uint64_t runs_past_32_bits = 0;   // a stream passed 2^32 fragments
  std::uint64_t waits_for_room = 0;      // a worker's queue of operations was full
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

// How a run ended. The values are the exit codes of `atp sim`.
enum class Ending : std::uint8_t {
  kHeld = 0,
  kWrongSum = 1,
  kNotLive = 2,
  kWasteful = 4,
  kAgainstThePage = 5,  // a node took a turn that docs/inside/protocol does not allow
};

struct Outcome {
  Ending ending = Ending::kHeld;
  std::string report;  // what went wrong, line by line
};

// Plays a world until everything is completed, every aggregator is free and all have left; and
// judges it.
Outcome run_to_the_end(World& world, Tally& tally);

// Plays the world of a seed.
Outcome run_seed(std::uint64_t seed, bool trace, Tally& tally);

// The command that plays a seed again.
std::string replay_line(std::uint64_t seed);

}  // namespace atp::sim
