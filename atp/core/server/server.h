#pragma once

#include <cstdint>
#include <span>

#include "atp/base/time.h"
#include "atp/core/outbox.h"
#include "atp/core/timing.h"
#include "atp/wire/control.h"

namespace atp {

struct ServerConfig {
  std::uint64_t boot_id = 1;  // differs at each start
  std::uint32_t wmax = 1024;  // window of a stream in packets, a power of two ≤ 65536
  std::uint16_t max_value_count = ATP_VALUES_MAX;
  ScaleMode scale_mode = ScaleMode::kFixed;
  double scale = 1e8;              // §3.8
  std::uint32_t float_slots = 64;  // F: fragments in float mode at a time
  std::uint32_t max_jobs = 256;    // jobs × stream ranges known at a time
  std::uint64_t seed = 1;
  Timing timing;
};

}  // namespace atp
