#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "atp/wire/number_format.h"

// Floating-point values as multiples of their block's unit (docs/protocol.md §5, *Blocks*). A block
// is up to 256 consecutive values. Before any is sent all ranks agree on one number for it: the
// exponent E of the largest absolute value that any of them has in it, as each sends its own and
// the network takes the maximum. The unit is 2^(E + 1 + c − 30), or − 15 for 16 bits, with c =
// ⌈log2 W⌉, and not below 2^-149, so that the sum of W contributions always fits.
//
// Units are powers of two: a value times the inverse of its unit is exact, and only the conversion
// to an integer rounds, to nearest even. Back, the integer's conversion to float32 rounds, and the
// multiplication by the unit is exact. An average then divides, and a narrower type rounds once
// more.

namespace atp {

inline constexpr std::size_t kBlockValues = 256;

// What a block is agreed on, if not on an exponent of −149 … 127. The maximum of ranks is right for
// these, too.
inline constexpr std::int16_t kZeroBlock = -32768;    // nothing but zeros
inline constexpr std::int16_t kSpecialBlock = 32767;  // NaN or ±Inf is among them

// Of any finite float32 but 0.
inline constexpr int kLowestExponent = -149;
inline constexpr int kHighestExponent = 127;

// Of `count` values at `values`: ⌊log2 of the largest absolute value⌋, or one of the two above.
std::int16_t block_exponent(DataType type, const std::byte* values, std::size_t count);

// The unit of a block and what follows from it.
class BlockUnit {
 public:
  // `exponent`: one that kLowestExponent ≤ exponent ≤ 127. kBlocks or kBlocksInt16.
  BlockUnit(std::int16_t exponent, std::size_t world_size, NumberFormat format);

  float unit() const { return unit_; }
  // The inverse of the unit, in two factors as it may not fit a float32.
  float first_factor() const { return first_factor_; }
  float second_factor() const { return second_factor_; }
  // The largest absolute value of a contribution in 16 bits.
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
// order: what a fragment that holds a part of a special block carries of its other blocks, so that
// their sums have the same bits as everywhere else.
void round_to_units(DataType type, const std::byte* values, std::size_t count,
                    const BlockUnit& unit, std::uint8_t* at);

// values[i] = sum · unit / divisor.
void dequantize(const std::uint8_t* at, std::size_t count, const BlockUnit& unit,
                NumberFormat format, float divisor, DataType type, std::byte* values);

// What 16 bits carry of a special block, as a float32 does not fit: of each value whether it is NaN
// or ±Inf. The result has ±Inf or NaN where one was (+Inf with −Inf gives NaN), and NaN in the rest
// of the block: the finite values are lost, and say so.
void write_classes(DataType type, const std::byte* values, std::size_t count, std::uint8_t* at);
void read_classes(const std::uint8_t* at, std::size_t count, DataType type, std::byte* values);

// For a caller with the values of all ranks, one row each: the largest exponent of any row, and the
// sum that quantize(), integers' addition and dequantize() give, of at most kBlockValues columns.
// `to` may be one of the rows.
std::int16_t block_exponent_of_rows(DataType type, std::span<const std::byte* const> rows,
                                    std::size_t count);
void sum_rows_in_units(DataType type, std::span<const std::byte* const> rows, std::size_t count,
                       const BlockUnit& unit, float divisor, std::byte* to);
// Its two halves, for a caller that adds the sums of others in between: integers in the machine's
// order of bytes, and the values that they stand for.
void add_rows_in_units(DataType type, std::span<const std::byte* const> rows, std::size_t count,
                       const BlockUnit& unit, std::int32_t* sums);
void write_sums_of_units(const std::int32_t* sums, std::size_t count, const BlockUnit& unit,
                         float divisor, DataType type, std::byte* to);

// As they are: float32 in network byte order.
void write_floats(DataType type, const std::byte* values, std::size_t count, std::uint8_t* at);
// values[i] = float / divisor.
void read_floats(const std::uint8_t* at, std::size_t count, float divisor, DataType type,
                 std::byte* values);

}  // namespace atp
