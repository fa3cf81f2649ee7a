#include "atp/core/worker/rtt_estimator.h"

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

}  // namespace atp
