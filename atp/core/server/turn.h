#pragma once

#include "atp/base/counters.h"
#include "atp/base/time.h"
#include "atp/core/outbox.h"
#include "atp/core/server/server_config.h"
#include "atp/core/server/server_counter.h"
#include "atp/wire/join.h"

namespace atp {

// What one call into the server may use: the time, where packets and counts go. Parts of the
// server get it as an argument and never keep it, so that their state stays plain data.
struct Turn {
  Instant now;
  const ServerConfig& config;
  Counters<ServerCounter>& counters;
  Outbox& out;
  bool congested = false;  // the server's own receive queue grows (H36)

  void count(ServerCounter counter, std::uint64_t amount = 1) { counters.add(counter, amount); }
};

// What all ranks of a job agree on (docs/protocol.md §2).
struct JobTerms {
  JobKey key;
  std::uint16_t first_stream = 0;
  std::uint16_t stream_count = 0;
  std::uint16_t world_size = 0;
  std::uint16_t value_count = 0;  // K: the least of all JOINs' and the server's own
  std::uint32_t wmax = 0;
  ScaleMode scale_mode = ScaleMode::kFixed;
  double scale = 0;

  std::uint8_t bitmap_words() const { return bitmap_words_for(world_size); }
  bool operator==(const JobTerms&) const = default;
};

}  // namespace atp
