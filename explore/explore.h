#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "explore/drain.h"
#include "explore/plan.h"

// Explores all states of a world breadth first, so that a violation is shown with the fewest moves.
// Every move is checked when it is made, and from every state, or every n-th, three drains check
// that everything still finishes.

namespace atp::explore {

struct ExploreOptions {
  std::size_t most_states = 1'000'000;
  std::size_t drain_every = 1;  // 0: none
  std::function<void(std::size_t states, std::uint32_t depth)> progress;
};

struct Violation {
  std::string what;
  std::vector<std::string> story;  // the moves that lead to it
};

struct Exploration {
  std::size_t states = 0;
  std::size_t moves = 0;
  std::uint32_t depth = 0;  // moves from the first state to the farthest
  bool complete = false;    // there are no more states
  std::size_t ends = 0;     // states in which all is done and nothing is in flight
  std::size_t drains = 0;
  std::uint32_t most_waits = 0;  // of a drain
  Duration longest{};            // of a drain, until all was done
  Duration longest_cleaning{};   // of a drain, from then until nothing was left over
  std::size_t node_states = 0;   // of all hosts
  std::size_t turns = 0;         // played by the real nodes
  std::size_t packets = 0;       // distinct ones
  std::optional<Violation> violation;
};

Exploration explore(const Plan& plan, const ExploreOptions& options, const Bug* bug = nullptr);

// "1,234,567"
std::string with_commas(std::uint64_t number);

}  // namespace atp::explore
