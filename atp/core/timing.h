#pragma once

#include "atp/base/time.h"

// The protocol's fixed times, in one place (docs/inside/protocol §8). Configurations hold a copy,
// which tests may shorten.

namespace atp {

struct Timing {
  // Joining (docs/inside/protocol §2): JOINs are repeated at intervals that grow from first to last
  // until one is answered, then at each refresh; a lease lasts five refreshes.
  Duration join_first = std::chrono::milliseconds(50);
  Duration join_last = std::chrono::seconds(1);
  Duration join_refresh = std::chrono::seconds(1);
  Duration lease = std::chrono::seconds(5);

  // The worker's repeat timer. A peer that computes looks like loss to it, so its floor is far
  // above the round trip of a rack.
  Duration rto_initial = std::chrono::milliseconds(100);
  Duration rto_min = std::chrono::milliseconds(25);
  Duration rto_max = std::chrono::seconds(1);
  // How late a fragment must be before three later PARAMETERs mean a loss rather than reordering
  // (H15).
  Duration reorder_min = std::chrono::milliseconds(2);

  // The switch's sweep releases an aggregator that was unused for `reclaim` (§3.7).
  Duration reclaim = std::chrono::seconds(1);
  Duration sweep = std::chrono::milliseconds(250);

  // The server: delay of the first FLUSH of a stalled fragment, its maximum back-off, the time for
  // flushed sums to arrive before the NACK, and the pause between two *waiting for*.
  Duration flush_after = std::chrono::milliseconds(25);
  Duration flush_max = std::chrono::seconds(1);
  Duration nack_after = std::chrono::milliseconds(10);
  Duration waiting_for = std::chrono::seconds(1);
  // How long two operations may each wait for the other's ranks before it is an error.
  Duration crossed = std::chrono::seconds(5);

  // Answers to non-members (unknown job, versions, refusals): at most one per sender and reason in
  // this time.
  Duration answer_pause = std::chrono::milliseconds(10);

  // How long a return after detaching waits; doubles each time.
  Duration return_first = std::chrono::milliseconds(250);
  Duration return_max = std::chrono::seconds(60);

  bool operator==(const Timing&) const = default;
};

}  // namespace atp
