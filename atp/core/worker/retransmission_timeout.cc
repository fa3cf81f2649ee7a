#include "atp/core/worker/retransmission_timeout.h"

#include <algorithm>

namespace atp {

void RttEstimator::sample(Duration rtt) {
  if (!measured_) {
    measured_ = true;
    smoothed_ = rtt;
    variation_ = rtt / 2;
    return;
  }
  const Duration error = rtt > smoothed_ ? rtt - smoothed_ : smoothed_ - rtt;
  variation_ += (error - variation_) / 4;
  smoothed_ += (rtt - smoothed_) / 8;
}

Duration RttEstimator::rto(const Timing& timing) const {
  if (!measured_) return timing.rto_initial;
  return std::min(smoothed_ + std::max(4 * variation_, timing.rto_min), timing.rto_max);
}

Duration RetransmissionTimeout::backed_off(unsigned firings) {
  const Duration doubled = rto() * (1LL << std::min(firings, 10U));
  const Duration base = std::min(doubled, timing_.rto_max);
  // Jitter keeps the workers of a stalled fragment from repeating in step (H16).
  return base + Duration(static_cast<Duration::rep>(random_.uniform() *
                                                    static_cast<double>(base.count()) / 8));
}

Duration RetransmissionTimeout::reordering_ends() const {
  return rtt_.smoothed() + std::max(timing_.reorder_min, rtt_.smoothed() / 4);
}

}  // namespace atp
