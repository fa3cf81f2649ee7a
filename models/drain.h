#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/state_table.h"

// Does everything finish, if from now on nothing goes wrong? A drain plays on from a state:
// packets are delivered in one of three orders, and when none is left the next timer fires, until
// all is done, and on until every aggregator is free, every switch knows its ranks and nobody is
// detached. What many drains have in common, which is nearly all of them, is played once: each
// remembers what came of the silent states on its way.

namespace atp::models {

enum class DrainOrder : std::uint8_t { kLowestFirst, kHighestFirst, kMixed };
inline constexpr std::array kDrainOrders{DrainOrder::kLowestFirst, DrainOrder::kHighestFirst,
                                         DrainOrder::kMixed};

struct DrainResult {
  std::uint32_t waits = 0;  // how often the clock had to move until all was done
  Duration until_done{};
  Duration until_clean{};  // after that
  std::string objection;   // empty: it has ended well
};

class Drainer {
 public:
  Drainer(World& world, DrainOrder order)
      : world_(world), order_(order), silent_(world.cluster().host_count()) {}

  DrainResult drain(State state);
  // The same, with its moves; for the story of one that ends badly.
  std::vector<Move> moves_of(State state, std::size_t most);

 private:
  // Of a silent state: what is left until all is done and clean, as moments.
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

}  // namespace atp::models
