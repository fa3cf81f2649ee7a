#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// float32 <-> int32 (docs/protocol.md §5, paper §3.8). A value is multiplied by the scale as if in
// float64 and rounded to nearest even; back, it is divided by the scale (and by the number of
// workers for an average) in float64 and rounded once to float32. What does not fit an int32, NaN
// and ±Inf saturate and raise `overflow`, upon which the fragment takes the float path, so that
// NaN and Inf reach every worker as such (H11).

namespace atp {

struct Quantized {
  // The largest absolute value, as the header's field; 1 where all that isn't zero rounds to it, so
  // that an automatic scale can tell too small from nothing.
  std::uint32_t magnitude = 0;
  bool overflow = false;
  bool operator==(const Quantized&) const = default;
};

// Writes 4·values.size() bytes at `at`, int32 two's complement in network byte order.
Quantized quantize(std::span<const float> values, double scale, std::uint8_t* at);

// Reads out.size() int32 from `at`: out[i] = float32(value / scale / divisor).
void dequantize(const std::uint8_t* at, double scale, double divisor, std::span<float> out);

// The float path: the values as they are, IEEE-754 float32 in network byte order.
void write_floats(std::span<const float> values, std::uint8_t* at);

// Of `count` float32 values in network byte order: the largest finite magnitude, and whether there
// is nothing but finite values.
struct FloatRange {
  float largest = 0;
  bool all_finite = true;
  bool operator==(const FloatRange&) const = default;
};
FloatRange float_range(const std::uint8_t* at, std::size_t count);

// out[i] = float32(float64(value) / divisor).
void read_floats(const std::uint8_t* at, double divisor, std::span<float> out);

}  // namespace atp
