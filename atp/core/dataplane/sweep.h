#pragma once

#include <cstdint>

#include "atp/core/dataplane/switch_state.h"

// The only timer of a switch. Each round ends leases and visits all aggregators. One that was
// unused for the reclaim time is released and its sum emitted as RESEND: nothing else would free
// aggregators left by a lost job, or by a fragment split over two of them (H29,
// docs/inside/protocol §7). A round pauses when the outbox is full and resumes when the driver has
// sent. A switch without trees and sums sets no timer.

namespace atp {

class Sweep {
 public:
  Instant next() const { return next_; }
  // Schedules the first round, unless one is due.
  void arm(Instant now, Duration period) {
    if (next_ == kNever) next_ = now + period;
  }
  void run(SwitchTurn& turn);

  bool operator==(const Sweep&) const = default;

 private:
  Instant next_ = kNever;
  std::uint32_t cursor_ = 0;
  bool kept_any_ = false;  // this round has left an aggregator in use
};

}  // namespace atp
