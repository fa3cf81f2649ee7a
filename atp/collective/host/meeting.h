#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/base/result.h"
#include "atp/collective/host/presence.h"
#include "atp/collective/host/segment.h"
#include "atp/wire/packet_view.h"

// How the ranks of one host come to share a segment. Rank 0 waits at a Unix socket whose abstract
// name is the job's, so it belongs to the network namespace and no file is left of it. The others
// call there; when all have, rank 0 makes the segment and passes its descriptor on; and when all
// say that they have it, everybody begins. Only processes of the same user are listened to.
//
// Whether there is shared memory at all is decided for all alike: where one rank cannot have it,
// all are told why.

namespace atp {

// What a rank has of the memory of its host.
struct HostPlace {
  Segment segment;
  Presence presence;
};

// Where the job has other hosts, too.
struct HostOfSeveral {
  std::size_t number = 0;      // of this host
  std::size_t most_ranks = 1;  // on any host
  std::vector<Rank> ranks;     // of this host, in the job
};

struct HostMeetingOptions {
  JobKey job;
  std::size_t rank = 0;        // on this host
  std::size_t world_size = 1;  // likewise
  std::optional<HostOfSeveral> of_several = std::nullopt;
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  // What sums travel as, in words: the same at all ranks, or none begins.
  std::string numbers = "";
};

struct HostMeetingOutcome {
  std::optional<HostPlace> place;
  std::string why_not;  // without a place: at which rank, and what failed
};

// Blocks until all ranks are there. An error: they are not, or some other process disturbs.
Result<HostMeetingOutcome> meet_on_host(const HostMeetingOptions& options);

}  // namespace atp
