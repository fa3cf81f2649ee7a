#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "atp/collective/peer/plan.h"

// Adds values and messages to a plan: the vocabulary of all algorithms.

namespace atp {

class PlanBuilder {
 public:
  using Ref = std::uint32_t;  // a value of the plan
  // Up to this many ranks send directly to each other, which takes a connection with every rank.
  static constexpr std::size_t kDirectRanks = 16;

  // `first_part`: the number of the plan's first message between two ranks.
  PlanBuilder(std::size_t rank, std::size_t ranks, SpareMemory& spare, std::uint32_t first_part = 0)
      : rank_(rank), ranks_(ranks), first_part_(first_part), spare_(spare) {}

  PeerPlan take() { return std::move(plan_); }
  std::size_t rank() const { return rank_; }
  std::size_t ranks() const { return ranks_; }

  Ref given(ConstBytes bytes);
  Ref receive(std::size_t from, std::uint32_t part, Bytes to, bool is_eager = false);
  Ref combine(ElementReduction reduction, std::vector<Ref> operands, Bytes to);
  // A value that `take` makes from another one of the same size.
  Ref make(Ref from, Bytes to, PlannedValue::Take take);
  void send(std::size_t to, std::uint32_t part, Ref value, bool is_eager = false);
  // Part 0 of an exchange between all ranks. (A rank that only sends would end before it could
  // notice that its receiver is gone.)
  void send_given(std::size_t to, Ref value) { send(to, 0, value, true); }
  Ref receive_given(std::size_t from, Bytes to) { return receive(from, 0, to, true); }
  // For one user, whose other operands are given.
  Ref receive_passing(std::size_t from, std::uint32_t part, std::size_t bytes);
  // Memory that lives as long as the plan.
  Bytes scratch(std::size_t bytes);
  void keep(Scratch scratch) { plan_.scratch.push_back(std::move(scratch)); }

  // Visits the other ranks in an order in which no rank is everybody's first.
  template <class Act>
  void for_others(Act&& act) const {
    for (std::size_t i = 1; i < ranks_; ++i) act((rank_ + i) % ranks_);
  }

  // Rings: each rank sends to the next one only, first of its own and then what came in.
  std::size_t next() const { return (rank_ + 1) % ranks_; }
  std::size_t before() const { return (rank_ + ranks_ - 1) % ranks_; }

  // Adds this rank's values to the sums that pass by. Block b starts at the rank after b, from
  // its own value `first`, and ends at b. `bytes_of(b)` are its bytes, and `add(b, incoming)` makes
  // the sum to pass on. Returns this rank's sum.
  template <class BytesOf, class Add>
  Ref add_around(Ref first, const BytesOf& bytes_of, const Add& add) {
    Ref sum = first;
    for (std::uint32_t step = 0; step + 1 < ranks_; ++step) {
      send(next(), step, sum);
      const std::size_t b = (rank_ + 2 * ranks_ - 2 - step) % ranks_;
      sum = add(b, receive_passing(before(), step, bytes_of(b)));
    }
    return sum;
  }
  // Gives this rank's block to all, and takes theirs to `place_of(b)`; `part` is the first one of
  // its messages. Calls `arrives(b, block)` for each.
  template <class PlaceOf, class Arrives>
  void pass_around(Ref own, std::uint32_t part, const PlaceOf& place_of, const Arrives& arrives) {
    for (std::size_t step = 0; step + 1 < ranks_; ++step, ++part) {
      send(next(), part, own);
      const std::size_t b = (before() + ranks_ - step) % ranks_;
      own = receive(before(), part, place_of(b));
      arrives(b, own);
    }
  }
  template <class PlaceOf>
  void pass_around(Ref own, std::uint32_t part, const PlaceOf& place_of) {
    pass_around(own, part, place_of, [](std::size_t, Ref) {});
  }

 private:
  Ref add(PlannedValue value);

  const std::size_t rank_;
  const std::size_t ranks_;
  const std::uint32_t first_part_;
  SpareMemory& spare_;
  PeerPlan plan_;
};

}  // namespace atp
