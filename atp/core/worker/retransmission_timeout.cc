#include "atp/core/worker/retransmission_timeout.h"

#include <algorithm>

namespace atp {

void RttEstimator::sample(Duration rtt, const Timing& timing) {
  if (!measured_) {
    measured_ = true;
    smoothed_ = rtt;
    variation_ = rtt / 2;
    return;
  }
  rtt = std::min(rtt, 2 * smoothed_ + timing.reorder_min);
  const Duration error = rtt > smoothed_ ? rtt - smoothed_ : smoothed_ - rtt;
  variation_ += (error - variation_) / 4;
  smoothed_ += (rtt - smoothed_) / 8;
}

void RttEstimator::bound(Duration most) {
  if (measured_ && most >= smoothed_) return;
  variation_ = measured_ ? std::min(variation_, most / 2) : most / 2;
  smoothed_ = most;
  measured_ = true;
}

Duration RttEstimator::probe(const Timing& timing) const {
  return smoothed_ + std::max(4 * variation_, smoothed_) + timing.reorder_min;
}

Duration RttEstimator::rto(const Timing& timing) const {
  if (!measured_) return timing.rto_initial;
  return std::min(smoothed_ + std::max(4 * variation_, timing.rto_min), timing.rto_max);
}

Duration RetransmissionTimeout::backed_off(unsigned firings) {
  const Duration doubled = rto() * (1LL << std::min(firings, 10U));
  return with_jitter(std::min(doubled, timing_.rto_max));
}

std::optional<Duration> RetransmissionTimeout::probe_after(Instant now, unsigned probes) {
  constexpr unsigned kMaxProbes = 2;
  const Duration wait = rtt_.probe(timing_) * (1 + probes);
  if (now >= lossy_until_ || !rtt_.measured()) return std::nullopt;
  if (probes >= kMaxProbes || wait >= rto()) return std::nullopt;
  return with_jitter(wait);
}

Duration RetransmissionTimeout::reordering_ends() const {
  return rtt_.smoothed() + std::max(timing_.reorder_min, rtt_.smoothed() / 4);
}

}  // namespace atp
