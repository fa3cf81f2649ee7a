#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "atp/collective/peer/request.h"

// What a rank does in an operation, as a graph of values. A value is memory, and how its bytes come
// to be there: they are given, are received, or are combined out of other values, element by
// element. What is sent is a value.
//
// All of it streams. A value fills from its front, so what depends on it (a combination, a message)
// goes on as far as it has come. That is how chains and trees overlap their steps without being cut
// into chunks here, and why nothing in a plan has an order in time: which bits come out depends on
// the graph alone.
//
//   broadcast       up to 1 MiB, or 128 KiB times the ranks: a binomial tree; else a chain
//   reduce          the same backwards: each rank adds its own, then those of its children
//   gather, scatter between the root and each rank
//   all_gather      up to 16 ranks: from each to each; else around a ring
//   all_to_all      from each to each
//   reduce_scatter  each block to the rank that it is for, which adds them in the order of ranks
//   all_reduce      up to 8 KiB and 16 ranks: from each to each, and all add in the order of ranks;
//                   else a reduce_scatter and an all_gather of its result, with the same bits
//   barrier         dissemination: in step k a word to the rank 2^k further on

namespace atp {

struct PlannedValue {
  enum class Origin : std::uint8_t { kGiven, kReceived, kCombined };
  Origin origin = Origin::kGiven;
  std::byte* memory = nullptr;  // only read, if given
  std::size_t bytes = 0;
  std::size_t from = 0;                 // of one received
  std::uint32_t part = 0;               // likewise: which of the messages between the two ranks
  std::vector<std::uint32_t> operands;  // of one that is combined, in their order
  ElementReduction reduction = ElementReduction::kNone;  // likewise
};

struct PlannedSend {
  std::size_t to = 0;
  std::uint32_t part = 0;
  std::uint32_t value = 0;
};

struct PeerPlan {
  std::vector<PlannedValue> values;
  std::vector<PlannedSend> sends;
  std::vector<std::unique_ptr<std::byte[]>> scratch;
};

// The request has been checked. Its memory and the plan's are used as long as the plan lives.
PeerPlan make_plan(const PeerRequest& request, std::size_t rank, std::size_t ranks);

}  // namespace atp
