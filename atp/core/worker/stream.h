#pragma once

#include <cstdint>

#include "atp/core/worker/index_map.h"
#include "atp/core/worker/operation_queue.h"
#include "atp/core/worker/repeat_pacer.h"
#include "atp/core/worker/send_window.h"

// One stream of a worker: an independent sequence space with its operations, placement and timer.

namespace atp {

struct Stream {
  Stream(const Placement& placement, const JobKey& job, std::uint16_t stream_id, std::uint32_t wmax,
         std::size_t operations_max)
      : id(stream_id),
        window(wmax),
        operations(operations_max),
        indices(placement, job, stream_id, wmax) {}

  std::uint16_t id;
  SendWindow window;
  OperationQueue operations;
  IndexMap indices;
  RepeatPacer pacer;
  std::uint64_t values_assigned = 0;   // decides which stream a tensor goes to
  Instant timer = kNever;              // repeats the oldest fragment
  Instant follow = kNever;             // … and then the others outstanding
  unsigned backoff = 0;                // doublings of the time-out since the last answer
  std::uint64_t asked_end = 0;         // below it the server has asked, also for what is unsent
  std::uint64_t timed_out_before = 0;  // what was in flight when the timer last fired
  Instant last_answer{};

  Instant due() const { return timer < follow ? timer : follow; }

  // When the oldest operation fails for want of progress. One that waits for another stream's is
  // answered for by that one.
  Instant deadline() const {
    if (operations.empty() || !operations.front().settled()) return kNever;
    const Operation& oldest = operations.front();
    const Instant since = oldest.began > last_answer ? oldest.began : last_answer;
    return since + oldest.spec.timeout;
  }
  bool operator==(const Stream&) const = default;
};

}  // namespace atp
