#include "atp/cli/node/loop_desk.h"

#include <chrono>
#include <utility>

namespace atp {

std::optional<NodeStatus> LoopDesk::ask() {
  constexpr std::chrono::seconds kPatience{2};
  std::unique_lock lock(mutex_);
  if (closed_) return std::nullopt;
  status_.reset();
  asked_ = true;
  loop_.wake();
  answered_.wait_for(lock, kPatience, [this] { return status_.has_value() || closed_; });
  return std::move(status_);
}

void LoopDesk::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  answered_.notify_all();
}

void LoopDesk::answer(NodeStatus status) {
  const std::lock_guard lock(mutex_);
  asked_ = false;
  status_ = std::move(status);
  answered_.notify_all();
}

}  // namespace atp
