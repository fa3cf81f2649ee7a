#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "atp/collective/base/reduction.h"
#include "atp/core/worker/block_layout.h"
#include "atp/wire/number_format.h"

// The rule of numbers (docs/inside/protocol §5) for a caller that sees the values of all ranks: one
// row per rank in memory. The result has the same bits as from the network, because it uses the
// same exponents, units, integers and exact sums. But the ranks need not agree on anything first,
// since the rows show a block's largest exponent, and nothing travels, so the integers of a block
// stay in registers and the first-level cache.
//
// What the network cannot combine, and a sum that only one rank gets, by a reduce-scatter or a
// reduce, follow another rule: elements are combined as they are (base/reduction.h), in the order
// of ranks. No switch adds such floats and no other rank has to get the same bits, so nothing
// requires integers, in which a huge value would make all others of its block coarse. (Programs
// leave padding between tensors uninitialized, DeepSpeed's ZeRO-3 for example.)

namespace atp {

enum class Recipients : std::uint8_t { kAll, kOne };

class RowReduction {
 public:
  // By the rule of numbers. `format`: for a floating-point sum that is not small; not the fixed
  // scale. `layout` must outlive this object.
  RowReduction(DataType type, Reduction reduction, NumberFormat format, bool small,
               const BlockLayout& layout, Recipients recipients = Recipients::kAll);
  // As elements.
  RowReduction(ElementKind kind, ElementReduction how, const BlockLayout& layout)
      : kind_(kind), how_(how), layout_(layout) {}

  std::size_t value_bytes() const { return bytes_of(kind_); }

  // Combines the operation's values from `begin` to `end`, which must be block boundaries. Each row
  // starts with value `begin`; `to` gets the result and may be one of the rows.
  void reduce(std::span<const std::byte* const> rows, std::size_t begin, std::size_t end,
              std::byte* to) const;

 private:
  void sum_block(std::span<const std::byte* const> rows, std::size_t count, float divisor,
                 std::byte* to) const;

  ElementKind kind_;
  ElementReduction how_;  // kNone: the rule of numbers, with these:
  DataType type_ = DataType::kFloat32;
  Reduction reduction_ = Reduction::kSum;
  NumberFormat format_ = NumberFormat::kBlocks;
  const BlockLayout& layout_;
};

}  // namespace atp
