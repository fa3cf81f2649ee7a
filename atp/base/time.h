#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

// Time as the core sees it: a value that callers pass in. CoreClock has no now() on purpose, so
// nothing in the core can read a clock. A driver maps its own clock onto Instant; the virtual
// network advances a clock of its own.

namespace atp {

using Duration = std::chrono::nanoseconds;

struct CoreClock {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<CoreClock, Duration>;
  static constexpr bool is_steady = true;
};

using Instant = CoreClock::time_point;

// A timer that is not armed.
inline constexpr Instant kNever = Instant::max();

// Callers may ask for the longest time-out that the type holds; adding it to an Instant would
// overflow, so it is capped at a year.
constexpr std::chrono::milliseconds bounded_timeout(std::chrono::milliseconds timeout) {
  constexpr std::chrono::hours kForever{24 * 365};
  return std::min<std::chrono::milliseconds>(timeout, kForever);
}

}  // namespace atp
