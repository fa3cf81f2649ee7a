#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

// The exact sum of up to 1024 float32 values (docs/inside/protocol §6). Every finite float32 is a
// multiple of 2^-149 below 2^128, so 277 bits of fixed point hold any of them, ten more bits hold
// their sum and one its sign: 288 bits, in five words of two's complement. Adding is exact, the
// order does not matter, and one rounding at the end (to nearest, ties to even) gives the float32
// closest to the true sum on every machine.
//
// NaN and the infinities have no fixed-point value, so the sum marks their presence. Any NaN, or
// both infinities, make NaN; one infinity makes itself. A zero sum is +0, even of negative zeros.

namespace atp {

class ExactSum {
 public:
  void add(float value);
  float rounded() const;

  // The sum cut into integers, for nodes that only add integers modulo 2^32: 13 parts of 22 bits,
  // so that 1024 of each fit, and one part with the two highest bits and counts of the marks.
  static constexpr std::size_t kParts = 14;
  void write_parts(std::int32_t* parts) const;
  // Rebuilds a sum from the sums of its parts: at most 1024 ExactSums of at most 1024 values in
  // all.
  static ExactSum of_parts(const std::int32_t* parts);

  bool operator==(const ExactSum&) const = default;

 private:
  using Words = std::array<std::uint64_t, 5>;  // lowest first; bit 0 counts 2^-149

  static std::uint32_t finite_bits(const Words& magnitude);

  Words words_{};
  std::uint8_t marks_ = 0;
};

// The same for many columns at once, for a caller that holds all contributions: value i of the
// result is the sum of value i of every row. Each row is `count` float32 values in network byte
// order; `at` may be one of the rows.
void exact_sums(std::span<const std::uint8_t* const> rows, std::size_t count, std::uint8_t* at);

}  // namespace atp
