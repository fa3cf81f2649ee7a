#include "atp/collective/base/completion.h"

#include "atp/base/check.h"

namespace atp {

void Completion::finish(Status result) {
  if (on_done_) {
    on_done_(result);
    on_done_ = nullptr;  // its captures must not outlive the operation
  }
  {
    const std::lock_guard lock(mutex_);
    ATP_CHECK(!result_.has_value());
    result_ = std::move(result);
  }
  ended_.notify_all();  // without the mutex, which the woken threads take
}

Status Completion::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return result_.has_value(); });
  return *result_;
}

bool Completion::wait_or_interrupted(const MaybeInterruption& interruption) {
  std::unique_lock lock(mutex_);
  const auto has_ended = [this] { return result_.has_value(); };
  return atp::wait_or_interrupted(ended_, lock, std::chrono::steady_clock::time_point::max(),
                                  has_ended, interruption);
}

bool Completion::done() const {
  const std::lock_guard lock(mutex_);
  return result_.has_value();
}

}  // namespace atp
