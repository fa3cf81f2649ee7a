#pragma once

#include <cstddef>
#include <cstdint>

#include "atp/collective/peer/exact_gather.h"
#include "atp/collective/peer/plan_builder.h"
#include "atp/core/worker/block_codec.h"

// An all-reduce of float32 by the rule of numbers (docs/inside/protocol §5), with the same bits as
// from the network. A small or *exact* operation is gathered as floats and added up exactly
// (exact_gather.h). All others are summed as integers, in three stages:
//
//   1. the exponents of all blocks: an all-reduce of int16 with maximum;
//   2. in 32 bits, the values of special blocks, if there are any: exactly, as above;
//   3. the values in units of their blocks: a reduce-scatter of integers. In 32 bits the sums
//      replace the values and are gathered as finished floats; in 16 bits they have memory of their
//      own and are gathered as integers, which is half as much.
//
// Integers are in network byte order, as in the network, so that both use the same functions.

namespace atp {

class NumberStages final : public PlanStages {
 public:
  // The request outlives it, and has a format.
  NumberStages(const CollectiveRequest& request, std::size_t rank, std::size_t ranks,
               SpareMemory& spare)
      : NumberStages(request, rank, ranks, spare, Places(request, ranks)) {}

  std::optional<PeerPlan> next() override;

 private:
  // The parts of the scratch.
  struct Places {
    Places(const CollectiveRequest& request, std::size_t ranks);
    std::size_t exponents = 0;  // the agreed ones, after those that are sent
    std::size_t rest = 0;       // 16-bit sums, or gathered floats
    std::size_t end = 0;
  };
  enum class Stage : std::uint8_t { kNone, kExponents, kFloats, kIntegers };

  NumberStages(const CollectiveRequest& request, std::size_t rank, std::size_t ranks,
               SpareMemory& spare, const Places& places);
  std::optional<PeerPlan> next_stage();
  PeerPlan exponents();
  void agree_on_exponents();
  PeerPlan integers();
  void add_to(std::size_t begin, ConstBytes incoming, bool is_last);

  bool is_narrow() const { return *request_.format == NumberFormat::kBlocksInt16; }
  std::size_t share_begin(std::size_t share) const;
  std::uint8_t* sums(std::size_t value) const;  // the place of the value's sum
  Bytes sums_of(std::size_t share) const;

  const CollectiveRequest& request_;
  const std::size_t rank_;
  const std::size_t ranks_;
  SpareMemory& spare_;
  Scratch scratch_;  // belongs to the first plan, once there is one
  std::byte* const tensor_;
  const float divisor_;
  const BlockLayout layout_;
  const bool is_exact_;
  std::uint8_t* const sent_exponents_;
  const std::span<std::int16_t> exponents_;
  std::uint8_t* const narrow_sums_;
  ExactGather floats_;
  const BlockCodec codec_;
  Stage stage_ = Stage::kNone;
};

}  // namespace atp
