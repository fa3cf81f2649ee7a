#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "atp/collective/waits/late_ranks.h"

namespace atp {

// Says once for whom a call waits, as soon as LateRanks would.
class WaitNotice {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Null: says nothing.
  explicit WaitNotice(std::function<void(const std::string&)> say) : say_(std::move(say)) {}

  // When it wants to look.
  Time at() const { return say_ ? at_ : Time::max(); }
  // The call still waits. `text` makes the line.
  template <class Text>
  void look(const Text& text) {
    if (say_ && std::chrono::steady_clock::now() >= at_) std::exchange(say_, nullptr)(text());
  }

 private:
  const Time at_ = std::chrono::steady_clock::now() + LateRanks::kToTell;
  std::function<void(const std::string&)> say_;
};

}  // namespace atp
