#pragma once

#include <algorithm>

#include "atp/base/time.h"
#include "atp/core/timing.h"

// When the next JOIN (or LEAVE) of one path is due: at once, then from join_first doubling to
// join_last until it is answered, then each join_refresh (docs/protocol.md §2).

namespace atp {

class JoinSchedule {
 public:
  Instant next() const { return next_; }
  bool due(Instant now) const { return now >= next_; }
  bool answered() const { return answered_; }

  // Asks at once, and again in short intervals until it is answered.
  void restart(Instant now, const Timing& timing) {
    next_ = now;
    interval_ = timing.join_first;
    answered_ = false;
  }
  void sent(Instant now, const Timing& timing) {
    last_sent_ = now;
    next_ = now + (answered_ ? timing.join_refresh : interval_);
    interval_ = std::min(2 * interval_, timing.join_last);
  }
  void answer(Instant now, const Timing& timing) {
    if (answered_ || next_ == kNever) return;
    answered_ = true;
    next_ = std::max(now, last_sent_ + timing.join_refresh);
  }
  void stop() { next_ = kNever; }
  Instant last_sent() const { return last_sent_; }

  bool operator==(const JoinSchedule&) const = default;

 private:
  Instant next_ = kNever;
  Instant last_sent_{};
  Duration interval_{};
  bool answered_ = false;
};

}  // namespace atp
