#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "atp/collective/base/collective_request.h"
#include "atp/collective/peer/spare_memory.h"

// What a rank does in an operation, as a graph of values. A value is memory together with the
// origin of its bytes: they are given, received, or combined from other values, element by element.
// Messages send values.
//
// Everything streams. A value fills from its front, and everything that depends on it (a
// combination, a message) follows as far as it has been filled. So chains and trees overlap their
// steps without being cut into chunks here, and nothing in a plan has an order in time: the
// resulting bits depend on the graph alone.
//
//   broadcast       a chain for at least 128 KiB and 16 KiB per rank; otherwise a binomial tree
//   reduce          the same in reverse: each rank adds its own, then those of its children
//   gather, scatter between the root and each rank
//   all_gather      around a ring, if blocks are large or there are more than 16 ranks; otherwise
//                   from each to all others
//   all_to_all      from each to all others
//   reduce_scatter  each block goes to its rank, which adds them in the order of ranks; or around a
//                   ring, if blocks are large and the order does not matter to the bits (integers),
//                   or if the request wants that order
//   all_reduce      up to 8 KiB and 16 ranks: from each to all others, which add in the order of
//                   ranks; otherwise a reduce_scatter and an all_gather of its result, with the
//                   same bits
//                   by the rule of numbers: in stages (number_stages.h)
//   barrier         dissemination: in step k a message to the rank 2^k further on
//
// On links a ring of large blocks takes 0.82 to 0.97 of the time of the exchange with all others,
// which moves as many bytes: its one flow keeps the link full, several share it unevenly.

namespace atp {

struct PlannedValue {
  // Given more bytes of the operand, makes those of the value, from `offset` on, in whole elements.
  using Take = std::function<void(std::size_t offset, ConstBytes operand)>;
  enum class Origin : std::uint8_t { kGiven, kReceived, kCombined };
  Origin origin = Origin::kGiven;
  std::byte* memory = nullptr;  // only read, if given
  std::size_t bytes = 0;
  // If received, and its only user takes it as it comes: the size of its memory, which is used
  // again and again. 0: there is memory for all of it.
  std::size_t window = 0;
  std::size_t from = 0;                 // if received: the sender
  std::uint32_t part = 0;               // if received: which message between the two ranks
  bool is_eager = false;                // if received: its sender has it from the start
  std::vector<std::uint32_t> operands;  // if combined: from these, in order
  ElementReduction reduction = ElementReduction::kNone;  // if combined
  Take take;  // if combined, from one operand of the same size: instead of the reduction
};

struct PlannedSend {
  std::size_t to = 0;
  std::uint32_t part = 0;
  std::uint32_t value = 0;
  bool is_eager = false;  // as of the value that the other rank receives
};

struct PeerPlan {
  std::vector<PlannedValue> values;
  std::vector<PlannedSend> sends;
  std::vector<Scratch> scratch;
};

// The request must have been checked. The plan uses the request's memory and its own while it
// lives.
PeerPlan make_plan(const CollectiveRequest& request, std::size_t rank, std::size_t ranks,
                   SpareMemory& spare);

// The plans of an operation in which a rank cannot compute what it contributes to one before the
// values of the previous one have come in. Their messages have different parts.
class PlanStages {
 public:
  virtual ~PlanStages() = default;
  // Called when the operation begins, and then each time all values of the last plan are complete.
  // These may still go out, so their memory must not change. Nothing: the result is complete.
  virtual std::optional<PeerPlan> next() = 0;
};

// Null: the operation has one plan. The request must not move.
std::unique_ptr<PlanStages> make_stages(const CollectiveRequest& request, std::size_t rank,
                                        std::size_t ranks, SpareMemory& spare);

}  // namespace atp
