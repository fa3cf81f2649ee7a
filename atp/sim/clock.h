#pragma once

#include <cstdint>
#include <limits>

#include "atp/base/time.h"

// The simulator's own time: integer picoseconds since the run began. A byte at 100 Gbit/s takes 80
// of them, so that sums of transmission times are exact; in nanoseconds a small packet's time would
// be rounded by some per cent. The nodes of the core see nanoseconds, rounded down.

namespace atp::sim {

using Picoseconds = std::int64_t;

inline constexpr Picoseconds kNeverPs = std::numeric_limits<Picoseconds>::max();
inline constexpr Picoseconds kPsPerNs = 1000;

constexpr Picoseconds picoseconds(Duration length) {
  return length.count() >= kNeverPs / kPsPerNs ? kNeverPs : length.count() * kPsPerNs;
}
constexpr Picoseconds picoseconds(Instant when) { return picoseconds(when.time_since_epoch()); }
constexpr Instant instant(Picoseconds when) { return Instant{Duration{when / kPsPerNs}}; }

}  // namespace atp::sim
