#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "atp/wire/packet.h"

// The types of values, the reductions, and the formats in which values travel (docs/inside/protocol
// §5, *Numbers*).

namespace atp {

enum class DataType : std::uint8_t { kFloat32 = 1, kBFloat16 = 2, kFloat16 = 3, kInt32 = 4 };

enum class Reduction : std::uint8_t { kSum = 0, kAverage = 1, kMax = 2, kMin = 3 };

// How sums of floating-point values travel. All ranks of a job must ask for the same format when
// they join. An operation may ask for another one, except in a job with the fixed scale.
enum class NumberFormat : std::uint8_t {
  kFixed = 0,        // int32 multiples of one scale (paper §3.8), for comparison with the paper
  kBlocks = 1,       // int32 multiples of a unit per block, agreed on beforehand
  kBlocksInt16 = 2,  // the same in 16 bits
  kExact = 3,        // float32, summed exactly by the server
  kCount
};

constexpr std::size_t bytes_of(DataType type) {
  return type == DataType::kBFloat16 || type == DataType::kFloat16 ? 2 : 4;
}

constexpr bool is_floating(DataType type) { return type != DataType::kInt32; }

constexpr bool is_sum(Reduction reduction) {
  return reduction == Reduction::kSum || reduction == Reduction::kAverage;
}

// ⌈log2 W⌉: how many more bits the sum of W equal values needs than one of them.
constexpr int carry_bits(std::size_t world_size) {
  return static_cast<int>(std::bit_width(world_size - 1));
}

// With more ranks, a contribution would keep fewer than nine of its sixteen bits.
inline constexpr std::size_t kMaxRanksOfInt16 = 64;

// An operation of at most this many values is *small*: its floating-point sums are exact, take one
// round trip and do not queue behind a large operation. W times its bytes fit a default receive
// buffer, and the server's exact sums cost less than a second round trip for exponents
// (docs/results/accuracy.md has the measurement).
constexpr std::size_t small_operation_values(std::size_t world_size) {
  return world_size < 256 ? 4096 / world_size : 16;
}

}  // namespace atp
