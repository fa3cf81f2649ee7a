#pragma once

#include <cstddef>
#include <cstdint>

#include "atp/base/siphash.h"
#include "atp/core/placement.h"
#include "atp/core/server/server_counter.h"
#include "atp/core/tenant.h"
#include "atp/core/timing.h"
#include "atp/core/turn.h"
#include "atp/wire/join.h"
#include "atp/wire/status.h"

// The context of one call into the server, and its answers to senders that belong to no job. Also
// the two sets of terms that every part reads: the server's configuration and a job's terms.

namespace atp {

struct ServerConfig {
  std::uint64_t boot_id = 1;  // differs at each start; 0 counts as 1
  HashKey secret{};           // of proofs; nobody else knows it
  std::uint32_t wmax = 256;   // window of a stream in packets, a power of two ≤ 65536
  std::uint16_t max_value_count = ATP_VALUES_MAX;
  Placement placement;
  bool rehash = true;              // after a collision (§3.6)
  double scale = 1e8;              // for jobs with the fixed scale (§3.8)
  std::uint32_t float_slots = 64;  // F: fragments in float mode at a time
  std::uint32_t max_jobs = 256;    // jobs × stream ranges known at a time
  // A single packet from a stranger can make a job, so the streams per job and the memory of all
  // jobs together are bounded. A job that does not fit is refused when its first rank joins.
  std::uint16_t max_streams = 8;
  std::size_t memory_limit_bytes = std::size_t{1} << 30;
  const Quotas* quotas = nullptr;  // null: no keys, and so no tenants
  std::uint64_t seed = 1;
  std::uint64_t first_sequence = 0;  // of each stream (see WorkerConfig)
  Timing timing;

  bool operator==(const ServerConfig&) const = default;
};

// What all ranks of a job agree on (docs/inside/protocol §2).
struct JobTerms {
  JobKey key;
  std::uint16_t first_stream = 0;
  std::uint16_t stream_count = 0;
  std::uint16_t world_size = 0;
  std::uint16_t value_count = 0;  // K: the smallest in any JOIN and the server's configuration
  std::uint32_t wmax = 0;
  NumberFormat number_format = NumberFormat::kFixed;
  double scale = 0;

  std::uint8_t bitmap_words() const { return bitmap_words_for(world_size); }
  bool operator==(const JobTerms&) const = default;
};

struct ServerTurn : Turn<ServerConfig, ServerCounter> {
  bool congested = false;  // the server's own receive queue is long (H36)
};

// Sends a STATUS to the neighbour from which the packet came, with the packet's job, stream and
// bitmap width, addressed to `ranks`. The answer to a straight JOIN or LEAVE carries DIRECT as
// well, so that a worker can tell the two paths apart. Used when no membership says where to send
// the answer, and when the holder of a rank must not receive it.
void answer(ServerTurn& turn, const Arrival& in, const RankSet& ranks,
            const StatusMessage& message);

// Why a JOIN is rejected, and the answer to its sender. The holder of the rank is not told.
struct Rejection {
  ServerCounter drop = ServerCounter::kDropRefused;
  StatusMessage answer;
};

}  // namespace atp
