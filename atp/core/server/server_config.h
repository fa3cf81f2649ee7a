#pragma once

#include <cstddef>
#include <cstdint>

#include "atp/core/placement.h"
#include "atp/core/timing.h"

namespace atp {

struct ServerConfig {
  std::uint64_t boot_id = 1;  // differs at each start; 0 is taken for 1
  std::uint32_t wmax = 1024;  // window of a stream in packets, a power of two ≤ 65536
  std::uint16_t max_value_count = ATP_VALUES_MAX;
  Placement placement;
  bool rehash = true;              // after a collision (§3.6)
  double scale = 1e8;              // of jobs with a fixed scale (§3.8)
  std::uint32_t float_slots = 64;  // F: fragments in float mode at a time
  std::uint32_t max_jobs = 256;    // jobs × stream ranges known at a time
  // A single packet of a stranger may make a job, so what one takes is bounded: streams of a job,
  // and what all jobs together may take. One that doesn't fit is refused when its first rank joins.
  std::uint16_t max_streams = 8;
  std::size_t memory_limit_bytes = std::size_t{1} << 30;
  std::uint64_t seed = 1;
  Timing timing;

  bool operator==(const ServerConfig&) const = default;
};

}  // namespace atp
