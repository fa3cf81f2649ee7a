#pragma once

#include <algorithm>
#include <cstdint>

#include "atp/base/time.h"
#include "atp/core/timing.h"

// Is the worker attached to its tree, or does it go straight to the server (docs/protocol.md §5,
// *Detaching*)? A switch that died must not stop the job, and a slow peer must not be taken for a
// dead switch: direct repeats by timer are counted, and whatever shows that the server merely
// waits, or that the tree still answers, undoes the count.

namespace atp {

class Attachment {
 public:
  static constexpr int kDirectRepeatsToDetach = 3;

  bool attached() const { return !detached_; }
  std::uint32_t detachments() const { return detachments_; }

  // A timer repeated a fragment straight to the server. True: time to detach.
  bool count_direct_repeat() { return !detached_ && ++direct_repeats_ >= kDirectRepeatsToDetach; }
  // STATUS *waiting for*: a peer is late, the switch isn't dead.
  void excuse() { direct_repeats_ = std::max(0, direct_repeats_ - 1); }
  // A fragment that was never repeated directly by timer was answered: the tree works.
  void clear() { direct_repeats_ = 0; }

  void detach(Instant now, const Timing& timing) {
    detached_ = true;
    direct_repeats_ = 0;
    return_not_before_ = now + return_wait_;
    return_wait_ = return_wait_ == Duration{0} ? timing.return_first
                                               : std::min(2 * return_wait_, timing.return_max);
    ++detachments_;
  }
  bool may_return(Instant now) const { return detached_ && now >= return_not_before_; }
  void attach() {
    detached_ = false;
    direct_repeats_ = 0;
  }

  bool operator==(const Attachment&) const = default;

 private:
  bool detached_ = false;
  std::uint32_t detachments_ = 0;
  int direct_repeats_ = 0;
  Duration return_wait_{0};  // the first return is at once
  Instant return_not_before_{};
};

}  // namespace atp
