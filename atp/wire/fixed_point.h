#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// float32 <-> int32 with the paper's single scale for a job (docs/inside/protocol §5, *Fixed*;
// paper §3.8). A value is multiplied by the scale as if in float64 and rounded to nearest even.
// Back, it is divided by the scale (and by the number of workers for an average) in float64 and
// rounded once to float32. Values beyond an int32, NaN and ±Inf saturate and set `overflow`; the
// fragment then takes the float path, so that NaN and Inf reach every worker unchanged (H11).

namespace atp {

struct Quantized {
  // The largest absolute value, for the header's field `magnitude`.
  std::uint32_t magnitude = 0;
  bool overflow = false;
  bool operator==(const Quantized&) const = default;
};

// Writes 4·values.size() bytes at `at`, int32 two's complement in network byte order.
Quantized quantize(std::span<const float> values, double scale, std::uint8_t* at);

// Reads out.size() int32 from `at`: out[i] = float32(value / scale / divisor).
void dequantize(const std::uint8_t* at, double scale, double divisor, std::span<float> out);

}  // namespace atp
