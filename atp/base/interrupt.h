#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

// What ends a thread's wait before its time: the front end, or another thread.

namespace atp {

// A front end may want its callers' waits to end early: Python's on Ctrl-C. It sets a check, which
// waiting threads call several times a second. Once the check has returned true, it must do so
// until the waiting call has returned to the front end. The operation that the caller waited for
// goes on.
using InterruptCheck = bool (*)();
inline constexpr std::chrono::milliseconds kBetweenInterruptChecks{200};

// Null: nothing interrupts a wait. Before there are threads that wait.
void set_interrupt_check(InterruptCheck check);
// Whether this thread's wait must end.
bool interrupted();

// Ends the waits of a thread that connects ranks, because another one has learned that a rank is
// lost.
class Interruption {
 public:
  // The first call counts. From any thread.
  void set(std::string why) {
    const std::lock_guard lock(mutex_);
    if (!why_) why_ = std::move(why);
  }
  std::optional<std::string> why() const {
    const std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<std::string> why_;
};

// What a thread that waits gets with its options; null: only the front end interrupts it.
using MaybeInterruption = std::shared_ptr<const Interruption>;

std::optional<std::string> why_interrupted(const MaybeInterruption& interruption);

// Like the condition variable's, but also ends if interrupted. Returns whether the condition holds.
template <class Condition>
bool wait_or_interrupted(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                         std::chrono::steady_clock::time_point until, const Condition& condition,
                         const MaybeInterruption& interruption = nullptr) {
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    if (condition()) return true;
    if (now >= until) return false;
    const auto slice = now + kBetweenInterruptChecks;
    if (changed.wait_until(lock, until < slice ? until : slice, condition)) return true;
    lock.unlock();  // the check may take other locks
    const bool ends = why_interrupted(interruption).has_value();
    lock.lock();
    if (ends) return condition();
  }
}

}  // namespace atp
