#include "atp/cli/node/loop_desk.h"

#include <chrono>
#include <utility>

namespace atp {

std::optional<std::string> LoopDesk::ask() {
  constexpr std::chrono::seconds kPatience{2};
  std::unique_lock lock(mutex_);
  if (closed_) return std::nullopt;
  document_.reset();
  asked_ = true;
  loop_.wake();
  answered_.wait_for(lock, kPatience, [this] { return document_ || closed_; });
  return std::move(document_);
}

void LoopDesk::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  answered_.notify_all();
}

void LoopDesk::answer(std::string document) {
  const std::lock_guard lock(mutex_);
  asked_ = false;
  document_ = std::move(document);
  answered_.notify_all();
}

}  // namespace atp
