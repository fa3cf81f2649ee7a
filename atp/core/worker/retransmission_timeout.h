#pragma once

#include <cstdint>
#include <optional>

#include "atp/base/random.h"
#include "atp/base/time.h"
#include "atp/core/timing.h"

// How long a worker waits before it repeats a fragment (docs/inside/protocol §5, *Loss*).

namespace atp {

// The smoothed round-trip time and the time-out that follows from it (RFC 6298, with a minimum for
// the variation's part, because the round trip grows with the queues, and a maximum).
class RttEstimator {
 public:
  // The answer may have waited for a peer to repeat a lost packet, which says nothing about the
  // network. So a sample counts as at most twice the estimate plus the reordering time; otherwise
  // the time-outs of ranks that wait for each other would drive each other up.
  void sample(Duration rtt, const Timing& timing);
  // The round trip is at most this: the answer may have waited for a peer that computes. Lowers or
  // starts an estimate, and never raises it.
  void bound(Duration most);

  bool measured() const { return measured_; }
  Duration smoothed() const { return smoothed_; }
  Duration rto(const Timing& timing) const;
  // Twice the round trip, or the round trip and its variation if that is more, plus the reordering
  // time.
  Duration probe(const Timing& timing) const;

  bool operator==(const RttEstimator&) const = default;

 private:
  bool measured_ = false;
  Duration smoothed_{};
  Duration variation_{};
};

// The time-outs of all streams of one worker, which share one estimate.
class RetransmissionTimeout {
 public:
  RetransmissionTimeout(const Timing& timing, std::uint64_t seed)
      : timing_(timing), random_(seed) {}

  void sample(Duration rtt) { rtt_.sample(rtt, timing_); }
  void bound(Duration most) { rtt_.bound(most); }

  Duration rto() const { return rtt_.rto(timing_); }
  // The time-out of a stream whose timer has fired `firings` times in a row.
  Duration backed_off(unsigned firings);
  // The wait before probe number `probes` of the oldest fragment (the tail loss probe of RFC 8985,
  // since nothing follows the last packets that could show their loss). Nothing if the time-out
  // comes no later, or if no loss was seen recently: then a peer is late.
  std::optional<Duration> probe_after(Instant now, unsigned probes);
  void saw_loss(Instant now) { lossy_until_ = now + kLossMemory; }
  // A fragment that later ones overtook counts as lost if it has been unanswered for longer than
  // this. Before that it may have collided in a switch, and fragments summed there overtook it
  // (H15).
  Duration reordering_ends() const;

  bool operator==(const RetransmissionTimeout&) const = default;

 private:
  // Jitter, so that the workers of a stalled fragment do not repeat in step (H16).
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
