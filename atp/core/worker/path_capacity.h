#pragma once

#include <algorithm>
#include <cstdint>

#include "atp/base/time.h"

// What the path to the server holds while its queues are empty: the bytes that it delivers in its
// shortest round trip (docs/inside/protocol §5, *Congestion*; TCP Westwood's estimate). A loss on a
// path that is no more than full says nothing about congestion, so it does not cut the window
// below that. While peers compute, little is delivered, and the capacity is small.

namespace atp {

class PathCapacity {
 public:
  // Bytes were answered.
  void on_answer(Instant now, std::uint64_t bytes);
  // A fragment that was sent once was answered after this time.
  void on_round_trip(Instant now, Duration time);

  // 0: unknown.
  std::uint64_t bytes() const;

  bool operator==(const PathCapacity&) const = default;

 private:
  Duration shortest() const { return std::min(shortest_, earlier_shortest_); }

  // The shortest round trip counts for at least this long; a new route may be longer.
  static constexpr Duration kMemory = std::chrono::seconds(10);
  // A round is at least this many round trips, so that answers that arrive together in a train do
  // not make the path look faster than it is.
  static constexpr int kRoundTrips = 2;
  static constexpr int kEpochRounds = 8;

  Instant round_begin_{};
  std::uint64_t round_bytes_ = 0;
  // The fastest of the latest rounds: of this epoch and of the one before.
  std::uint64_t fastest_ = 0;  // bytes per millisecond
  std::uint64_t earlier_fastest_ = 0;
  int rounds_ = 0;
  Duration shortest_ = Duration::max();
  Duration earlier_shortest_ = Duration::max();
  Instant renew_ = Instant::min();
};

}  // namespace atp
