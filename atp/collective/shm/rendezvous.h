#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "atp/base/interrupt.h"
#include "atp/base/rank_set.h"
#include "atp/base/result.h"
#include "atp/collective/shm/presence.h"
#include "atp/collective/shm/segment.h"
#include "atp/wire/packet_view.h"

// How the ranks of one host get to share a segment. Rank 0 waits at a Unix socket with an abstract
// name made from the job's, so it belongs to the network namespace and leaves no file behind. The
// others connect to it. When all have, rank 0 makes the segment and passes its descriptor to them;
// when all have confirmed it, every rank starts. Only processes of the same user are accepted.
//
// All ranks use shared memory or none does: if one rank cannot have it, all are told why.

namespace atp {

// A rank's place in the shared memory of its host.
struct HostPlace {
  Segment segment;
  Presence presence;
};

// For a job with several hosts.
struct HostOfSeveral {
  std::size_t number = 0;      // of this host
  std::size_t most_ranks = 1;  // on any host
  std::vector<Rank> ranks;     // of this host, in the job
};

struct HostRendezvousOptions {
  JobKey job;
  std::size_t rank = 0;        // on this host
  std::size_t world_size = 1;  // likewise
  std::optional<HostOfSeveral> of_several = std::nullopt;
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  MaybeInterruption interruption = nullptr;  // ends the rendezvous with this error
  // The number format as text; it must be the same on all ranks.
  std::string numbers = "";
  // Gets a line about a wait of more than a second. Null: nobody does.
  std::function<void(const std::string&)> warn = nullptr;
};

struct HostRendezvousOutcome {
  std::optional<HostPlace> place;
  std::string why_not;  // without a place: at which rank, and what failed
};

// Blocks until all ranks are there. An error: some are not, or another process interferes.
Result<HostRendezvousOutcome> meet_on_host(const HostRendezvousOptions& options);

}  // namespace atp
