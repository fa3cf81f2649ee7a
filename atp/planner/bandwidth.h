#pragma once

#include <compare>

// A rate of bytes in ONE direction. Vendors quote NVLink as the sum of both directions and networks
// as one direction in bits; a type that cannot be made from a bare number by accident keeps the two
// from being compared, which paper §3.4 does in Fig. 7a (600 GB/s against 200 Gbit/s).

namespace atp::planner {

struct BytesPerSecond {
  double value = 0;

  constexpr bool is_positive() const { return value > 0; }
  constexpr auto operator<=>(const BytesPerSecond&) const = default;
};

constexpr BytesPerSecond operator*(BytesPerSecond rate, double factor) {
  return {rate.value * factor};
}
constexpr BytesPerSecond operator/(BytesPerSecond rate, double divisor) {
  return {rate.value / divisor};
}

// Decimal prefixes, as networks and vendors use them.
constexpr BytesPerSecond gigabytes_per_second(double value) { return {value * 1e9}; }
constexpr BytesPerSecond gigabits_per_second(double value) { return {value * 1e9 / 8}; }

}  // namespace atp::planner
