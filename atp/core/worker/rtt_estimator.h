#pragma once

#include "atp/base/time.h"
#include "atp/core/timing.h"

// Smoothed round-trip time and the repeat time-out that follows from it (RFC 6298's rule, with a
// floor under the variation's part, as the round trip grows with the queues, and a ceiling).

namespace atp {

class RttEstimator {
 public:
  void sample(Duration rtt);

  bool measured() const { return measured_; }
  Duration smoothed() const { return smoothed_; }
  Duration rto(const Timing& timing) const;

  bool operator==(const RttEstimator&) const = default;

 private:
  bool measured_ = false;
  Duration smoothed_{};
  Duration variation_{};
};

}  // namespace atp
