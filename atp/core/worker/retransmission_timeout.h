#pragma once

#include <cstdint>

#include "atp/base/random.h"
#include "atp/base/time.h"
#include "atp/core/timing.h"

// How long a worker waits before it repeats a fragment (docs/protocol.md §5, *Loss*).

namespace atp {

// Smoothed round-trip time and the repeat time-out that follows from it (RFC 6298's rule, with a
// floor under the variation's part, as the round trip grows with the queues, and a ceiling).
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

// The waits of all streams of one worker: they share its round trips.
class RetransmissionTimeout {
 public:
  RetransmissionTimeout(const Timing& timing, std::uint64_t seed)
      : timing_(timing), random_(seed) {}

  void sample(Duration rtt) { rtt_.sample(rtt); }

  Duration rto() const { return rtt_.rto(timing_); }
  // The time-out of a stream whose timer has fired so often in a row.
  Duration backed_off(unsigned firings);
  // What is unanswered for longer than this was overtaken by later ones because it was lost, not
  // because what was summed in a switch overtakes what collided there (H15).
  Duration reordering_ends() const;

  bool operator==(const RetransmissionTimeout&) const = default;

 private:
  Timing timing_;
  Random random_;
  RttEstimator rtt_;
};

}  // namespace atp
