#pragma once

#include <optional>

#include "atp/base/time.h"

// Decides how a job of several ranks ends. The first rank that fails determines the exit code. The
// others get a grace period to end by themselves, because their own errors (which rank is missing,
// and why) say more than ours. Then they get SIGTERM, then SIGKILL. A signal from the user starts
// the same period. Has no clock: times are arguments.

namespace atp {

class EndPolicy {
 public:
  enum class Step { kNone, kTerminate, kKill };

  // From SIGTERM to SIGKILL.
  static constexpr Duration kTerminatePeriod = std::chrono::seconds(5);

  explicit EndPolicy(Duration grace) : grace_(grace) {}

  // Records that a rank has ended. True if it is the first to fail.
  bool rank_ended(Instant now, int exit_code);
  // Records that the user has asked the ranks to end.
  void asked_to_end(Instant now) { begin_grace(now); }

  // The next step against the ranks that still run; each step is returned once.
  Step due(Instant now);
  Instant next() const { return next_at_; }
  int exit_code() const { return exit_code_.value_or(0); }

 private:
  void begin_grace(Instant now);

  Duration grace_;
  std::optional<int> exit_code_;  // of the first rank that failed
  Step next_step_ = Step::kNone;
  Instant next_at_ = kNever;
};

}  // namespace atp
