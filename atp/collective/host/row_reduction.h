#pragma once

#include <cstddef>
#include <span>

#include "atp/core/worker/block_layout.h"
#include "atp/wire/number_format.h"

// The rule of numbers (docs/protocol.md §5) for who sees what all ranks have: one row of values for
// each rank, side by side in memory. The result has the bits that the network gives, as it is made
// of the same exponents, units, integers and exact sums; but nothing is agreed on before, as the
// largest exponent of a block stands in its rows, and nothing travels, so the integers of a block
// stay in registers and the nearest cache.

namespace atp {

class RowReduction {
 public:
  // `format`: of a floating-point sum that is not small; not the fixed scale. `layout` must outlive
  // it.
  RowReduction(DataType type, Reduction reduction, NumberFormat format, bool small,
               const BlockLayout& layout)
      : type_(type),
        reduction_(reduction),
        format_(small ? NumberFormat::kExact : format),
        layout_(layout) {}

  // Combines the values from `begin` to `end` of the operation, which begin and end where blocks
  // do. Each row begins with value `begin`; `to` gets the result and may be one of the rows.
  void reduce(std::span<const std::byte* const> rows, std::size_t begin, std::size_t end,
              std::byte* to) const;

 private:
  void sum_block(std::span<const std::byte* const> rows, std::size_t count, float divisor,
                 std::byte* to) const;

  DataType type_;
  Reduction reduction_;
  NumberFormat format_;
  const BlockLayout& layout_;
};

}  // namespace atp
