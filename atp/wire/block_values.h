#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "atp/wire/number_format.h"

// Floating-point values as multiples of their block's unit (docs/inside/protocol §5, *Blocks*). A
// block is up to 256 consecutive values. Before sending values, all ranks agree on the block's
// exponent E, that of the largest absolute value any of them has in it: each rank sends its own and
// the network takes the maximum. The unit is 2^(E + 1 + c − 30), or 2^(E + 1 + c − 15) for 16 bits,
// with c = ⌈log2 W⌉, and never below 2^-149, so the sum of W contributions always fits.
//
// Units are powers of two: multiplying a value by the inverse of its unit is exact, and only the
// conversion to an integer rounds, to nearest even. On the way back the conversion to float32
// rounds, and the multiplication by the unit is exact. An average then divides, and a narrower type
// rounds once more.

namespace atp {

inline constexpr std::size_t kBlockValues = 256;

// What a block has instead of an exponent of −149 … 127. The maximum over the ranks is right for
// these too.
inline constexpr std::int16_t kZeroBlock = -32768;    // nothing but zeros
inline constexpr std::int16_t kSpecialBlock = 32767;  // at least one NaN or ±Inf

// The lowest exponent of any finite float32 other than 0.
inline constexpr int kLowestExponent = -149;
inline constexpr int kHighestExponent = 127;

// ⌊log2⌋ of the largest absolute value of `count` values at `values`, or kZeroBlock or
// kSpecialBlock.
std::int16_t block_exponent(DataType type, const std::byte* values, std::size_t count);

// The unit of a block and what follows from it.
class BlockUnit {
 public:
  // `exponent` is in kLowestExponent … 127, `format` kBlocks or kBlocksInt16.
  BlockUnit(std::int16_t exponent, std::size_t world_size, NumberFormat format);

  float unit() const { return unit_; }
  // The inverse of the unit as the product of two factors, since it may not fit a float32.
  float first_factor() const { return first_factor_; }
  float second_factor() const { return second_factor_; }
  // The largest absolute value that a contribution may have.
  std::int32_t limit() const { return limit_; }

 private:
  float unit_;
  float first_factor_;
  float second_factor_;
  std::int32_t limit_;
};

// Writes each value, rounded to units: int32 or int16 in network byte order.
void quantize(DataType type, const std::byte* values, std::size_t count, const BlockUnit& unit,
              NumberFormat format, std::uint8_t* at);

// Writes each value, rounded to units (and, in 16 bits, clamped), as a float32 in network byte
// order. A fragment that holds part of a special block carries its other blocks in this form, so
// that their sums have the same bits as anywhere else.
void round_to_units(DataType type, const std::byte* values, std::size_t count,
                    const BlockUnit& unit, std::uint8_t* at);

// values[i] = sum · unit / divisor.
void dequantize(const std::uint8_t* at, std::size_t count, const BlockUnit& unit,
                NumberFormat format, float divisor, DataType type, std::byte* values);

// A special block in 16 bits, where a float32 does not fit: for each value only whether it is NaN,
// +Inf or −Inf. The result has ±Inf or NaN where a rank had one (+Inf with −Inf gives NaN). Finite
// values of the block are lost and become NaN.
void write_classes(DataType type, const std::byte* values, std::size_t count, std::uint8_t* at);
void read_classes(const std::uint8_t* at, std::size_t count, DataType type, std::byte* values);

// For a caller that holds the values of all ranks, one row per rank: the largest exponent of any
// row, and the sum that quantize(), integer addition and dequantize() would give, for at most
// kBlockValues columns. `to` may be one of the rows.
std::int16_t block_exponent_of_rows(DataType type, std::span<const std::byte* const> rows,
                                    std::size_t count);
void sum_rows_in_units(DataType type, std::span<const std::byte* const> rows, std::size_t count,
                       const BlockUnit& unit, float divisor, std::byte* to);
// The two halves of that sum, for a caller that adds other hosts' sums in between: values to
// integers in host byte order, and integers back to values.
void add_rows_in_units(DataType type, std::span<const std::byte* const> rows, std::size_t count,
                       const BlockUnit& unit, std::int32_t* sums);
void write_sums_of_units(const std::int32_t* sums, std::size_t count, const BlockUnit& unit,
                         float divisor, DataType type, std::byte* to);

// Writes the values unrounded, as float32 in network byte order.
void write_floats(DataType type, const std::byte* values, std::size_t count, std::uint8_t* at);
// values[i] = float / divisor.
void read_floats(const std::uint8_t* at, std::size_t count, float divisor, DataType type,
                 std::byte* values);

}  // namespace atp
