#pragma once

#include <algorithm>
#include <cstdint>

#include "atp/base/random.h"
#include "atp/base/time.h"
#include "atp/core/timing.h"

// Two state machines of a worker's membership (worker_membership.h): when the next JOIN or LEAVE of
// a path is due, and whether the worker sends through its tree.

namespace atp {

// When the next JOIN (or LEAVE) of one path is due: at once, then at intervals that double from
// join_first to join_last until one is answered, and again join_refresh after the last one sent
// (docs/inside/protocol §2). The `seed` tells the ranks apart, so that those that began at the same
// time do not repeat theirs in step, and lose the same ones in a full queue each time (H38). Both
// paths of a rank wait alike.
class JoinSchedule {
 public:
  Instant next() const { return next_; }
  bool due(Instant now) const { return now >= next_; }

  // The next one is due at once, and then at short intervals until it is answered.
  void restart(Instant now, const Timing& timing) {
    next_ = now;
    interval_ = timing.join_first;
    answered_ = false;
    unanswered_ = prompted_ = 0;
  }
  // A node of the path wants another one at once. That happens once for each node of a route, so
  // more often in a row means nothing.
  void prompt(Instant now, const Timing& timing) {
    if (answered_ || next_ == kNever || prompted_ >= kMostPrompts) return;
    ++prompted_;
    next_ = now;
    interval_ = timing.join_first;
    unanswered_ = 0;
  }
  void sent(Instant now, const Timing& timing, std::uint64_t seed) {
    last_sent_ = now;
    next_ = now + interval_;
    if (interval_ == timing.join_last) next_ += jitter(seed);
    interval_ = std::min(2 * interval_, timing.join_last);
    answered_ = false;
    ++unanswered_;
  }
  void answer(Instant now, const Timing& timing) {
    if (answered_ || next_ == kNever) return;
    answered_ = true;
    unanswered_ = prompted_ = 0;
    next_ = std::max(now, last_sent_ + timing.join_refresh);
    interval_ = timing.join_first;
  }
  void stop() { next_ = kNever; }
  Instant last_sent() const { return last_sent_; }
  bool answered() const { return answered_; }  // the one sent last
  // Whether the last ones were answered, but no node of the path was content with any.
  bool in_vain() const { return prompted_ >= kMostPrompts; }
  int unanswered() const { return unanswered_; }  // how many were sent since the last answer

  bool operator==(const JoinSchedule&) const = default;

 private:
  static constexpr int kMostPrompts = 8;  // as many nodes as a route can have, with the server

  Duration jitter(std::uint64_t seed) const {
    Random random(seed ^ (static_cast<std::uint64_t>(unanswered_) << 32));
    return Duration{
        static_cast<Duration::rep>(random.uniform() * static_cast<double>(interval_.count()) / 8)};
  }

  Instant next_ = kNever;
  Instant last_sent_{};
  Duration interval_{};
  bool answered_ = false;
  int unanswered_ = 0;
  int prompted_ = 0;  // since it was answered or restarted
};

// Whether the worker is attached to its tree or sends directly to the server (docs/inside/protocol
// §5, *Detaching*).
class Attachment {
 public:
  // If only one direction of a link is dead, there may be no repeats by timer. Then the JOINs show
  // it.
  static constexpr int kUnansweredJoinsToDetach = 3;

  bool attached() const { return !detached_; }
  std::uint32_t detachments() const { return detachments_; }

  void detach(Instant now, const Timing& timing) {
    detached_ = true;
    return_not_before_ = now + return_wait_;
    return_wait_ = return_wait_ == Duration{0} ? timing.return_first
                                               : std::min(2 * return_wait_, timing.return_max);
    ++detachments_;
  }
  bool may_return(Instant now) const { return detached_ && now >= return_not_before_; }
  void attach() { detached_ = false; }

  bool operator==(const Attachment&) const = default;

 private:
  bool detached_ = false;
  std::uint32_t detachments_ = 0;
  Duration return_wait_{0};  // the first return is at once
  Instant return_not_before_{};
};

}  // namespace atp
