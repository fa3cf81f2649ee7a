#include "atp/wire/fixed_point.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "atp/wire/values.h"

namespace atp {
namespace {

constexpr double kLowest = -2147483648.0;
constexpr double kHighest = 2147483647.0;
constexpr std::uint64_t kSign = std::uint64_t{1} << 63;

// Adding 1.5·2^52 to a double of less than 2^51 rounds it to the nearest even integer in the
// default rounding mode, and leaves that integer's two's complement in the low bits.
constexpr double kRounder = 0x1.8p52;

constexpr std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }

// The largest magnitudes, as bits, that still round into an int32: half a unit beyond the limits,
// where the tie goes to the even neighbour, which is −2^31 below and out of range above.
constexpr std::uint64_t kFitsBelow = bits_of(2147483648.5);
constexpr std::uint64_t kFitsAbove = bits_of(2147483647.5) - 1;

}  // namespace

// All bits set if the condition bit (0 or 1) is.
constexpr std::uint64_t mask_of(std::uint64_t bit) { return 0 - bit; }

constexpr std::uint64_t select(std::uint64_t mask, std::uint64_t yes, std::uint64_t no) {
  return (yes & mask) | (no & ~mask);
}

// Has no branch and no comparison of doubles (which might trap), so that compilers turn it into
// SIMD. As integers, the bits of NaN and ±Inf are larger than those of any number, and the borrow
// of a subtraction tells which of two is larger.
ATP_VALUE_LOOP Quantized quantize(std::span<const float> values, double scale, std::uint8_t* at) {
  std::uint32_t magnitude = 0;
  std::uint32_t out_of_range = 0;
  const float* in = values.data();
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t scaled = bits_of(static_cast<double>(in[i]) * scale);
    const std::uint64_t negative = mask_of(scaled >> 63);
    const std::uint64_t bound = select(negative, kFitsBelow, kFitsAbove);
    const std::uint64_t beyond = (bound - (scaled & ~kSign)) >> 63;
    const std::uint64_t limit = select(negative, bits_of(kLowest), bits_of(kHighest));
    const auto clamped = std::bit_cast<double>(select(mask_of(beyond), limit, scaled));
    const auto integer = static_cast<std::uint32_t>(bits_of(clamped + kRounder));
    const auto sign = static_cast<std::uint32_t>(negative);
    out_of_range |= static_cast<std::uint32_t>(beyond);
    magnitude = std::max(magnitude, (integer ^ sign) - sign);
    store_value(at + 4 * i, integer);
  }
  return {magnitude, out_of_range != 0};
}

ATP_VALUE_LOOP void dequantize(const std::uint8_t* at, double scale, double divisor,
                               std::span<float> out) {
  float* to = out.data();
  const std::size_t count = out.size();
  if (divisor == 1) {  // a sum needs one division only, and a division dominates the cost
    for (std::size_t i = 0; i < count; ++i) {
      const auto integer = static_cast<std::int32_t>(load_value(at + 4 * i));
      to[i] = static_cast<float>(static_cast<double>(integer) / scale);
    }
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto integer = static_cast<std::int32_t>(load_value(at + 4 * i));
    to[i] = static_cast<float>(static_cast<double>(integer) / scale / divisor);
  }
}

}  // namespace atp
