#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "atp/base/counters.h"
#include "atp/base/time.h"
#include "atp/core/outbox.h"
#include "atp/core/timing.h"
#include "atp/core/topology/upstream.h"
#include "atp/wire/endpoint.h"

namespace atp {

struct SwitchConfig {
  std::uint32_t aggregators = 16384;
  std::uint16_t max_value_count = 350;  // K is lowered to this; also the size of an aggregator
  std::uint32_t max_trees = 1024;       // jobs × stream ranges known at a time
  UpstreamPolicy upstream;
  std::uint64_t seed = 1;
  Timing timing;
};

}  // namespace atp
