#include "atp/cli/node/loop_desk.h"

#include <utility>

namespace atp {

std::optional<NodeStatus> LoopDesk::ask() {
  std::unique_lock lock(mutex_);
  if (closed_) return std::nullopt;
  status_.reset();
  ++asked_;
  loop_.wake();
  changed_.wait_for(lock, patience_, [this] { return status_.has_value() || closed_; });
  return std::move(status_);
}

void LoopDesk::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void LoopDesk::answer(NodeStatus status) {
  const std::lock_guard lock(mutex_);
  answered_ = taken_;
  if (taken_ != asked_) return;
  status_ = std::move(status);
  changed_.notify_all();
}

}  // namespace atp
