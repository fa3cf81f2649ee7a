#pragma once

#include <cmath>

namespace atp::planner {

// A cost rounded to 40 bits (12 digits). Two ways to compute one cost differ in the last bits, and
// which of them wins must not depend on that: ties are decided by rule.
inline double comparable(double seconds) {
  int exponent = 0;
  const double fraction = std::frexp(seconds, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, 40)), exponent - 40);
}

}  // namespace atp::planner
