#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace atp {

// The time in which a thread could have done something: the monotonic clock, less what passed while
// the thread did not run. A process that was stopped (Ctrl-Z, a debugger, a machine that stood
// still) has heard nothing from anybody, so it must not take the others' silence for their death,
// nor its own for a time-out. A job that is stopped and continued as a whole goes on.
//
// Whoever reads the clock often enough (once each round of a loop) and tells it before it sleeps
// until when it means to, at most kLongestSleep, is late for one reason only.
class RunningClock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  // A busy machine's scheduler, a long round: what a thread may be late without having been
  // stopped. So much of each gap counts, so the time of a thread that is late every time goes on,
  // slower, and what it waits for ends.
  static constexpr std::chrono::milliseconds kLateAtMost{200};
  static constexpr std::chrono::seconds kLongestSleep{1};

  Time now() { return at(std::chrono::steady_clock::now()); }
  // As if the monotonic clock showed this.
  Time at(Time monotonic) {
    if (expected_) stopped_ += std::max(monotonic - *expected_ - kLateAtMost, Duration::zero());
    expected_ = last_ = monotonic;
    return monotonic - stopped_;
  }

  // The thread goes to sleep, until this time of this clock at the latest. Returns when it has to
  // wake up, which is earlier if that is far away.
  Time sleep_until(Time until) {
    const Time latest = last_ - stopped_ + kLongestSleep;
    const Time wake_up = std::min(until, latest);
    expected_ = std::max(wake_up + stopped_, last_);
    return wake_up;
  }
  // It waits for something that may never come, and no time is running out.
  void sleep_forever() { expected_.reset(); }

  // All the time in which it was stopped.
  Duration stopped() const { return stopped_; }

 private:
  Time last_;                     // monotonic, of the last reading
  std::optional<Time> expected_;  // monotonic: the next reading, unless the thread is stopped
  Duration stopped_{0};
};

}  // namespace atp
