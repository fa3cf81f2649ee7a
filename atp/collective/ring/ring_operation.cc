#include "atp/collective/ring/ring_operation.h"

#include "atp/base/check.h"

namespace atp {

void RingOperation::finish(Status result) {
  if (request_.on_done) {
    request_.on_done(result);
    request_.on_done = nullptr;  // what it captured must not outlive the operation
  }
  const std::lock_guard lock(mutex_);
  ATP_CHECK(!result_.has_value());
  result_ = std::move(result);
  ended_.notify_all();
}

Status RingOperation::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return result_.has_value(); });
  return *result_;
}

bool RingOperation::done() const {
  const std::lock_guard lock(mutex_);
  return result_.has_value();
}

}  // namespace atp
