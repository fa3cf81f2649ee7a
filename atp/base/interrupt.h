#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

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

// Like the condition variable's, but also ends if interrupted. Returns whether the condition holds.
template <class Condition>
bool wait_or_interrupted(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                         std::chrono::steady_clock::time_point until, const Condition& condition) {
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    if (condition()) return true;
    if (now >= until) return false;
    const auto slice = now + kBetweenInterruptChecks;
    if (changed.wait_until(lock, until < slice ? until : slice, condition)) return true;
    lock.unlock();  // the check may take other locks
    const bool ends = interrupted();
    lock.lock();
    if (ends) return condition();
  }
}

}  // namespace atp
