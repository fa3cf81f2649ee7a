#pragma once

#include <cstdint>
#include <optional>

#include "atp/base/random.h"
#include "atp/base/time.h"
#include "atp/core/timing.h"

// How long a worker waits before it repeats a fragment (docs/protocol.md §5, *Loss*).

namespace atp {

// Smoothed round-trip time and the repeat time-out that follows from it (RFC 6298's rule, with a
// floor under the variation's part, as the round trip grows with the queues, and a ceiling).
class RttEstimator {
 public:
  // The answer may have waited for the repeat of a packet that a peer had lost, which says nothing
  // about the network: a sample counts as twice the estimate at most, beside what reordering
  // explains. Else the time-outs of ranks that wait for each other would drive each other up.
  void sample(Duration rtt, const Timing& timing);
  // The round trip is at most this: the answer may have waited for a peer's computing. It lowers an
  // estimate, or begins one, and never raises it.
  void bound(Duration most);

  bool measured() const { return measured_; }
  Duration smoothed() const { return smoothed_; }
  Duration rto(const Timing& timing) const;
  // Twice the round trip, or as much more as it varies, beside what reordering explains.
  Duration probe(const Timing& timing) const;

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

  void sample(Duration rtt) { rtt_.sample(rtt, timing_); }
  void bound(Duration most) { rtt_.bound(most); }

  Duration rto() const { return rtt_.rto(timing_); }
  // The time-out of a stream whose timer has fired so often in a row.
  Duration backed_off(unsigned firings);
  // The wait before probe number `probes` of the oldest fragment (RFC 8985's tail loss probe):
  // nothing that follows could show that the last packets were lost. Nothing if a time-out is no
  // longer, or no loss was seen lately: then it is a peer that is late.
  std::optional<Duration> probe_after(Instant now, unsigned probes);
  void saw_loss(Instant now) { lossy_until_ = now + kLossMemory; }
  // What is unanswered for longer than this was overtaken by later ones because it was lost, not
  // because what was summed in a switch overtakes what collided there (H15).
  Duration reordering_ends() const;

  bool operator==(const RetransmissionTimeout&) const = default;

 private:
  // Jitter keeps the workers of a stalled fragment from repeating in step (H16).
  Duration with_jitter(Duration base) {
    return base + Duration(static_cast<Duration::rep>(random_.uniform() *
                                                      static_cast<double>(base.count()) / 8));
  }

  static constexpr Duration kLossMemory = std::chrono::seconds(10);

  Timing timing_;
  Random random_;
  Instant lossy_until_ = Instant::min();
  RttEstimator rtt_;
};

}  // namespace atp
