#include "atp/sim/reference_sum.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace atp::sim {
namespace {

// Digit i stands for 2^(i − 149); 2^128 · 1024 ranks stays below digit 288.
constexpr int kLowestPower = -149;
using Digits = std::array<std::int64_t, 320>;

void add(Digits& digits, float value) {
  int exponent = 0;
  const float fraction = std::frexp(std::fabs(value), &exponent);
  const auto mantissa = static_cast<std::uint32_t>(std::ldexp(fraction, 24));
  for (int bit = 0; bit < 24; ++bit) {
    if (((mantissa >> bit) & 1) == 0) continue;
    // Bits of a denormal that would fall below 2^-149 are zeros.
    digits[static_cast<std::size_t>(exponent - 24 + bit - kLowestPower)] += 1;
  }
}

void carry(Digits& digits) {
  std::int64_t over = 0;
  for (std::int64_t& digit : digits) {
    digit += over;
    over = digit >> 1;  // rounds down, so that it works for borrows too
    digit &= 1;
  }
}

bool less(const Digits& a, const Digits& b) {
  for (std::size_t i = a.size(); i-- > 0;) {
    if (a[i] != b[i]) return a[i] < b[i];
  }
  return false;
}

// The value of carried digits, rounded to 24 significant bits, ties to even.
float rounded(const Digits& digits) {
  std::size_t top = digits.size();
  while (top > 0 && digits[top - 1] == 0) --top;
  if (top == 0) return 0;
  const std::size_t lowest = top > 24 ? top - 24 : 0;
  std::uint64_t mantissa = 0;
  for (std::size_t i = top; i-- > lowest;) {
    mantissa = 2 * mantissa + static_cast<std::uint64_t>(digits[i]);
  }
  if (lowest > 0 && digits[lowest - 1] == 1) {
    bool beyond_half = false;
    for (std::size_t i = 0; i + 1 < lowest; ++i) beyond_half |= digits[i] == 1;
    if (beyond_half || (mantissa & 1) == 1) ++mantissa;
  }
  return static_cast<float>(
      std::ldexp(static_cast<double>(mantissa), static_cast<int>(lowest) + kLowestPower));
}

}  // namespace

float reference_sum(std::span<const float> values) {
  Digits positive{};
  Digits negative{};
  bool up = false;
  bool down = false;
  for (const float value : values) {
    if (std::isnan(value)) return std::numeric_limits<float>::quiet_NaN();
    if (std::isinf(value)) {
      (value > 0 ? up : down) = true;
    } else if (value != 0) {
      add(value > 0 ? positive : negative, value);
    }
  }
  if (up && down) return std::numeric_limits<float>::quiet_NaN();
  if (up || down) return up ? HUGE_VALF : -HUGE_VALF;

  carry(positive);
  carry(negative);
  const bool is_negative = less(positive, negative);
  Digits& larger = is_negative ? negative : positive;
  const Digits& smaller = is_negative ? positive : negative;
  for (std::size_t i = 0; i < larger.size(); ++i) larger[i] -= smaller[i];
  carry(larger);
  return is_negative ? -rounded(larger) : rounded(larger);
}

}  // namespace atp::sim
