#pragma once

#include <array>
#include <cstddef>

#include "atp/base/time.h"
#include "atp/core/timing.h"
#include "atp/wire/join.h"

// Which nodes of a worker's route answer *are you there*, all asked through the tree, so that a
// node is not blamed for the one below it (docs/inside/protocol §2, *Who is silent*). A round is a
// question to each; several rounds, because a question or its answer may be lost.

namespace atp {

class RouteQuestions {
 public:
  static constexpr int kRounds = 4;

  // Does nothing while earlier rounds have not ended.
  void begin(Instant now, const Timing& timing) {
    if (now < end(timing)) return;
    begun_ = next_ = now;
  }
  Instant begun() const { return begun_; }
  // By then the nodes that can answer have answered.
  Instant end(const Timing& timing) const {
    return begun_ == Instant::min() ? begun_ : begun_ + kRounds * timing.join_first;
  }

  Instant next() const { return next_; }
  void sent(Instant now, const Timing& timing) {
    next_ = now + timing.join_first;
    if (next_ >= end(timing)) next_ = kNever;
  }
  void stop() { next_ = kNever; }

  // *Here*, from the node that this many switches are below.
  void hear(Instant now, std::size_t hop) {
    if (hop < heard_.size()) heard_[hop] = now;
  }
  // How many nodes of the route work, from the first one on: those up to the last that has answered
  // since then, because the answer has passed them all.
  std::size_t reach(Instant since) const {
    std::size_t count = heard_.size();
    while (count > 0 && heard_[count - 1] <= since) --count;
    return count;
  }

  bool operator==(const RouteQuestions&) const = default;

 private:
  Instant begun_ = Instant::min();
  Instant next_ = kNever;
  std::array<Instant, Route::kMaxHops> heard_{};  // by the node's place in the route
};

}  // namespace atp
