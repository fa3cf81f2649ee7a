#pragma once

#include <optional>

#include "atp/base/time.h"

// How a job of several ranks ends. The first rank that fails decides the exit code; the others get
// a grace period to end by themselves, since their own errors (which rank is missing, and why) are
// worth more than ours. Then they are told to stop, and then they are stopped. A signal from the
// user starts the same period. Pure: times come in as arguments.

namespace atp {

class EndPolicy {
 public:
  enum class Step { kNone, kTerminate, kKill };

  // After SIGTERM, until SIGKILL.
  static constexpr Duration kTerminatePeriod = std::chrono::seconds(5);

  explicit EndPolicy(Duration grace) : grace_(grace) {}

  // A rank has ended. True if it is the first to fail.
  bool rank_ended(Instant now, int exit_code);
  // The user has asked the ranks to end.
  void asked_to_end(Instant now) { begin_grace(now); }

  // What to do to the ranks that still run; each step is returned once.
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
