#include "atp/wire/fixed_point.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "atp/wire/packet.h"

namespace atp {
namespace {

constexpr double kLowest = -2147483648.0;
constexpr double kHighest = 2147483647.0;

// Adding and subtracting 1.5·2^52 rounds a double of less than 2^51 to the nearest even integer in
// the default rounding mode. Unlike rint() it vectorises without SSE4.1.
constexpr double kRounder = 0x1.8p52;

void store_value(std::uint8_t* at, std::uint32_t value) {
  const std::uint32_t wire =
      std::endian::native == std::endian::little ? __builtin_bswap32(value) : value;
  std::memcpy(at, &wire, 4);
}

std::uint32_t load_value(const std::uint8_t* at) {
  std::uint32_t wire;
  std::memcpy(&wire, at, 4);
  return std::endian::native == std::endian::little ? __builtin_bswap32(wire) : wire;
}

}  // namespace

Quantized quantize(std::span<const float> values, double scale, std::uint8_t* at) {
  std::uint32_t magnitude = 0;
  std::uint32_t out_of_range = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double scaled = static_cast<double>(values[i]) * scale;
    // The comparisons are false for NaN, so it is out of range and becomes the lowest value.
    const double clamped = scaled >= kLowest ? (scaled <= kHighest ? scaled : kHighest) : kLowest;
    const double rounded = (clamped + kRounder) - kRounder;
    const auto integer = static_cast<std::int32_t>(rounded);
    // Half a unit beyond the limits still rounds into range.
    const bool fits = scaled >= kLowest - 0.5 && scaled < kHighest + 0.5;
    out_of_range |= fits ? 0U : 1U;
    const auto bits = static_cast<std::uint32_t>(integer);
    magnitude = std::max(magnitude, integer < 0 ? 0U - bits : bits);
    store_value(at + 4 * i, bits);
  }
  return {magnitude, out_of_range != 0};
}

void dequantize(const std::uint8_t* at, double scale, double divisor, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto integer = static_cast<std::int32_t>(load_value(at + 4 * i));
    out[i] = static_cast<float>(static_cast<double>(integer) / scale / divisor);
  }
}

void write_floats(std::span<const float> values, std::uint8_t* at) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_value(at + 4 * i, std::bit_cast<std::uint32_t>(values[i]));
  }
}

void read_floats(const std::uint8_t* at, double divisor, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto value = static_cast<double>(std::bit_cast<float>(load_value(at + 4 * i)));
    out[i] = static_cast<float>(value / divisor);
  }
}

}  // namespace atp
