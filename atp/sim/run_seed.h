#pragma once

#include <cstdint>
#include <string>

#include "atp/sim/tally.h"
#include "atp/sim/world.h"

namespace atp::sim {

// How a run ended. The values are the exit codes of `atp sim`.
enum class Ending : std::uint8_t { kHeld = 0, kWrongSum = 1, kNotLive = 2 };

struct Outcome {
  Ending ending = Ending::kHeld;
  std::string report;  // what went wrong, line by line
};

// Plays a world to its end: until everything is completed, every aggregator is free, and all have
// left; and judges it.
Outcome run_to_the_end(World& world, Tally& tally);

// The world of a seed.
Outcome run_seed(std::uint64_t seed, bool trace, Tally& tally);

// The command that plays a seed again.
std::string replay_line(std::uint64_t seed);

}  // namespace atp::sim
