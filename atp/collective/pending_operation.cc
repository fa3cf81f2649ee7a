#include "atp/collective/pending_operation.h"

#include "atp/base/check.h"
#include "atp/collective/failure_text.h"

namespace atp {

std::string PendingOperation::text() const { return operation_text(name_.number, name_.values); }

void PendingOperation::finish(Status result) {
  if (options_.on_done) {
    options_.on_done(result);
    options_.on_done = nullptr;  // what it captured must not outlive the operation
  }
  const std::lock_guard lock(mutex_);
  ATP_CHECK(!result_.has_value());
  result_ = std::move(result);
  ended_.notify_all();
}

Status PendingOperation::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return result_.has_value(); });
  return *result_;
}

bool PendingOperation::done() const {
  const std::lock_guard lock(mutex_);
  return result_.has_value();
}

}  // namespace atp
