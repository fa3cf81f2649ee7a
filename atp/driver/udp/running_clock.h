#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace atp {

// The time in which a thread could run: the monotonic clock without the time in which the thread
// was stopped. A process that was stopped (Ctrl-Z, a debugger, a suspended machine) has received
// nothing, so it must not take the others' silence for their death or its own for a time-out. A job
// that is stopped and continued as a whole therefore survives.
//
// The owner reads the clock often (once per round of a loop), and announces each sleep and its end
// with sleep_until(), at most kLongestSleep ahead. If it then reads the clock too late, the thread
// must have been stopped.
class RunningClock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  // How late a thread may be without having been stopped: because of the scheduler of a busy
  // machine or a long round. This much of each gap counts, so the clock of a thread that is always
  // late runs slower but does not stand still, and its time-outs still end.
  static constexpr std::chrono::milliseconds kLateAtMost{200};
  static constexpr std::chrono::seconds kLongestSleep{1};

  Time now() { return at(std::chrono::steady_clock::now()); }
  // The reading for this time of the monotonic clock.
  Time at(Time monotonic) {
    if (expected_) stopped_ += std::max(monotonic - *expected_ - kLateAtMost, Duration::zero());
    expected_ = last_ = monotonic;
    return monotonic - stopped_;
  }

  // Announces that the thread sleeps until this time of this clock at the latest. Returns when it
  // must wake up, which is earlier if `until` is far away.
  Time sleep_until(Time until) {
    const Time latest = last_ - stopped_ + kLongestSleep;
    const Time wake_up = std::min(until, latest);
    expected_ = std::max(wake_up + stopped_, last_);
    return wake_up;
  }
  // Announces a sleep without an end, while no time-out is running.
  void sleep_forever() { expected_.reset(); }

  // The total time in which the thread was stopped.
  Duration stopped() const { return stopped_; }

 private:
  Time last_;                     // monotonic, of the last reading
  std::optional<Time> expected_;  // monotonic: the next reading, unless the thread is stopped
  Duration stopped_{0};
};

}  // namespace atp
