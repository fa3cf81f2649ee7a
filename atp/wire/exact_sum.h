#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

// The exact sum of up to 1024 float32 values (docs/protocol.md §6). Every finite float32 is a
// multiple of 2^-149 below 2^128, so a fixed-point number of 277 bits holds any of them, ten more
// bits their sum and one its sign: 320 bits in five words, two's complement. Adding is then exact,
// the order cannot matter, and one rounding at the end (to nearest, ties to even) gives the
// float32 that is closest to the true sum, on every machine.
//
// NaN and the infinities have no place on that line; they leave marks. Any NaN, or both
// infinities, make NaN; one infinity makes itself. A sum of zero is +0, also of negative zeros.

namespace atp {

class ExactSum {
 public:
  void add(float value);
  float rounded() const;

  // Such sums cut into integers that can be added up, part by part and modulo 2^32, where nobody
  // knows of more than integers: 13 parts of 22 bits, so that 1024 of them fit, and one with the
  // two highest bits and the marks, counted.
  static constexpr std::size_t kParts = 14;
  void write_parts(std::int32_t* parts) const;
  // The sum of at most 1024 sums of at most 1024 values altogether, of whose parts these are the
  // sums.
  static ExactSum of_parts(const std::int32_t* parts);

  bool operator==(const ExactSum&) const = default;

 private:
  using Words = std::array<std::uint64_t, 5>;  // lowest first; bit 0 counts 2^-149

  static std::uint32_t finite_bits(const Words& magnitude);

  Words words_{};
  std::uint8_t marks_ = 0;
};

// The same of many columns at once, for who has all contributions: value i of the result is the
// sum of the values i of all `rows`. All are `count` float32 values in network byte order; `at` may
// be one of the rows.
void exact_sums(std::span<const std::uint8_t* const> rows, std::size_t count, std::uint8_t* at);

}  // namespace atp
