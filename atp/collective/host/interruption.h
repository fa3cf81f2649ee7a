#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "atp/base/interrupt.h"

// Ends the wait of a thread that connects ranks, because another thread has learned that a rank is
// lost.

namespace atp {

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

// What a thread that waits gets with its options; null: nothing interrupts it.
using MaybeInterruption = std::shared_ptr<const Interruption>;

// A front end may end its threads' waits as well (atp/base/interrupt.h).
inline std::optional<std::string> why_interrupted(const MaybeInterruption& interruption) {
  if (interrupted()) return "the wait was interrupted";
  return interruption == nullptr ? std::nullopt : interruption->why();
}

// A thread that waits until `until` looks at least this often.
inline std::chrono::steady_clock::time_point next_look(
    std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max()) {
  return std::min(until, std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
}

}  // namespace atp
