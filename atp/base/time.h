#pragma once

#include <chrono>
#include <cstdint>

// Time as the core sees it: a value that callers pass in. CoreClock has no now() on purpose, so
// nothing in the core can read a clock; a driver maps its own clock onto Instant, the virtual
// network counts its own.

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

}  // namespace atp
