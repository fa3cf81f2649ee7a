// Chooses for each block of the rows the arithmetic that the network would use.
#include "atp/collective/shm/row_reduction.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "atp/wire/block_values.h"
#include "atp/wire/exact_sum.h"
#include "atp/wire/lanes.h"
#include "atp/wire/plain_values.h"

namespace atp {
namespace {

constexpr std::size_t kLaneBytes = 4;
using Lanes = std::array<std::uint8_t, kLaneBytes * kBlockValues>;

// kNone: neither integers nor floats that only one rank gets.
ElementReduction as_elements(DataType type, Reduction reduction, NumberFormat format,
                             Recipients recipients) {
  if (is_floating(type)) {
    const bool as_floats = recipients == Recipients::kOne && format != NumberFormat::kExact;
    if (!as_floats || !is_sum(reduction)) return ElementReduction::kNone;
    return reduction == Reduction::kSum ? ElementReduction::kSum : ElementReduction::kAverage;
  }
  if (is_sum(reduction)) return ElementReduction::kSum;
  return reduction == Reduction::kMax ? ElementReduction::kMax : ElementReduction::kMin;
}

// The slow paths below convert values to the wire's form and back, as the network does.

void sum_exactly(DataType type, std::span<const std::byte* const> rows, std::size_t count,
                 float divisor, std::byte* to) {
  std::vector<Lanes> floats(rows.size());
  std::vector<const std::uint8_t*> lanes(rows.size());
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    write_floats(type, rows[rank], count, floats[rank].data());
    lanes[rank] = floats[rank].data();
  }
  Lanes sums;
  exact_sums(lanes, count, sums.data());
  read_floats(sums.data(), count, divisor, type, to);
}

// For a block with NaN or ±Inf, whose values do not fit 16 bits.
void sum_classes(DataType type, std::span<const std::byte* const> rows, std::size_t count,
                 std::byte* to) {
  Lanes classes;
  Lanes sum{};
  const std::size_t bytes = sizeof(std::uint16_t) * count;
  for (const std::byte* row : rows) {
    write_classes(type, row, count, classes.data());
    combine_lanes(ATP_KIND_SUM_BLOCKS_INT16, sum.data(), classes.data(), bytes);
  }
  load_lanes(ATP_KIND_SUM_BLOCKS_INT16, sum.data(), classes.data(), bytes);
  read_classes(classes.data(), count, type, to);
}

}  // namespace

RowReduction::RowReduction(DataType type, Reduction reduction, NumberFormat format, bool small,
                           const BlockLayout& layout, Recipients recipients)
    : RowReduction(kind_of(type), as_elements(type, reduction, format, recipients), layout) {
  type_ = type;
  reduction_ = reduction;
  format_ = small ? NumberFormat::kExact : format;
}

void RowReduction::reduce(std::span<const std::byte* const> rows, std::size_t begin,
                          std::size_t end, std::byte* to) const {
  if (rows.size() == 1) {
    // An empty tensor may have no memory.
    if (end > begin) std::memmove(to, rows.front(), bytes_of(kind_) * (end - begin));
    return;
  }
  if (how_ != ElementReduction::kNone) {
    return reduce_elements(kind_, how_, rows, rows.size(), to, end - begin);
  }
  if (!is_sum(reduction_)) {
    compare_plain_rows(type_, reduction_, rows, end - begin, to);
    return;
  }
  std::vector<const std::byte*> at(rows.begin(), rows.end());
  const auto advance = [&](std::size_t values) {
    for (const std::byte*& row : at) row += bytes_of(type_) * values;
    to += bytes_of(type_) * values;
  };
  const float divisor = reduction_ == Reduction::kAverage ? static_cast<float>(rows.size()) : 1.0F;
  if (format_ == NumberFormat::kExact) {
    for (std::size_t value = begin; value < end; value += kBlockValues) {
      const std::size_t count = std::min(kBlockValues, end - value);
      sum_exactly(type_, at, count, divisor, to);
      advance(count);
    }
    return;
  }
  for (std::size_t value = begin; value < end;) {
    const std::size_t count = layout_.block_at(value).end - value;
    sum_block(at, count, divisor, to);
    advance(count);
    value += count;
  }
}

void RowReduction::sum_block(std::span<const std::byte* const> rows, std::size_t count,
                             float divisor, std::byte* to) const {
  const std::int16_t exponent = block_exponent_of_rows(type_, rows, count);
  if (exponent == kZeroBlock) {
    std::memset(to, 0, bytes_of(type_) * count);
  } else if (exponent != kSpecialBlock) {
    sum_rows_in_units(type_, rows, count, BlockUnit(exponent, rows.size(), format_), divisor, to);
  } else if (format_ == NumberFormat::kBlocksInt16) {
    sum_classes(type_, rows, count, to);
  } else {
    sum_exactly(type_, rows, count, divisor, to);
  }
}

}  // namespace atp
