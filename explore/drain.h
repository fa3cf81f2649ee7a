#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "explore/state_table.h"

// Checks that everything finishes if nothing goes wrong from now on. A drain plays on from a state:
// packets are delivered in one of three orders, and when none is left the next timer fires, until
// all operations are done, and further until every aggregator is free, every switch has its ranks
// and no rank is detached. Drains have most of their moves in common, so these are played once:
// each drain records the outcome of the silent states (without packets in flight) that it passes.

namespace atp::explore {

enum class DrainOrder : std::uint8_t { kLowestFirst, kHighestFirst, kMixed };
inline constexpr std::array kDrainOrders{DrainOrder::kLowestFirst, DrainOrder::kHighestFirst,
                                         DrainOrder::kMixed};

struct DrainResult {
  std::uint32_t waits = 0;  // how often the clock had to advance until all was done
  Duration until_done{};
  Duration until_clean{};  // after that
  std::string objection;   // empty: it has ended well
};

class Drainer {
 public:
  Drainer(World& world, DrainOrder order)
      : world_(world), order_(order), silent_(world.cluster().host_count()) {}

  DrainResult drain(State state);
  // The moves of a drain, for the story of one that ends badly.
  std::vector<Move> moves_of(State state, std::size_t most);

 private:
  // The outcome of a silent state: when all is done, and when it is clean.
  struct End {
    std::uint32_t waits = 0;
    Instant done{};
    Instant clean{};
  };

  std::size_t pick(const State& state) const;
  Move next_move(const State& state) const;

  World& world_;
  DrainOrder order_;
  StateTable silent_;
  std::vector<End> ends_;  // of the states in silent_
};

}  // namespace atp::explore
