#pragma once

#include <algorithm>
#include <cstdint>

#include "atp/core/worker/worker_api.h"

// How many bytes a worker may have in flight to one server shard, over all its streams
// (docs/inside/protocol §5, *Congestion*; paper §3.7). The worker reports answers and losses, and
// checks the window before each first transmission.
//
// It starts with 200 packets, at most 256 KiB, divided by the number of servers that the worker's
// host sends to at once: they share its link. With whole windows to each, the queues of the links
// fill up with one server's packets while another waits for its own (docs/results/performance.md,
// *Network or ring*). Policy kAimd: slow start up to a threshold, then 1,500 bytes more per window.
// A loss halves it, though not below the path's capacity, and ECN takes a fifth, once per window,
// down to two packets (H30). A mark comes from a queue that has only begun to build, so it takes
// less than a loss, which comes from one that has overflowed (RFC 8511, which also gives the
// figure). Policy kPaper halves it for both, as in the paper. The window counts bytes, so that a
// job with large packets gets no larger share. A COLLISION means that aggregators are scarce, not
// bandwidth: it cuts the room (aggregator_room.h).

namespace atp {

class CongestionWindow {
 public:
  static constexpr std::uint64_t kInitialPackets = 200;
  static constexpr std::uint64_t kInitialBytesMax = 256 * 1024;

  CongestionWindow() = default;
  // It never grows beyond its part of `most`, the most that the streams can have in flight.
  // `servers`: how many the host sends to at once, each with a window.
  CongestionWindow(CongestionPolicy policy, std::uint64_t packet_bytes, std::uint64_t most,
                   std::uint64_t servers = 1);

  std::uint64_t bytes() const { return bytes_; }
  // `bytes` were answered. `limited`: the window, neither the application nor the room, held
  // packets back. Returns whether the window was cut.
  bool on_answer(std::uint64_t bytes, bool ecn, bool limited);
  // `capacity`: what the path holds while its queues are empty, in bytes; 0 if that is unknown.
  bool on_loss(std::uint64_t capacity) {
    if (policy_ == CongestionPolicy::kPaper) return cut(bytes_ / 2);
    return cut(std::max(bytes_ / 2, std::min(bytes_, capacity)));
  }

  bool operator==(const CongestionWindow&) const = default;

 private:
  void grow(std::uint64_t answered);
  bool cut(std::uint64_t bytes);

  CongestionPolicy policy_ = CongestionPolicy::kNone;
  std::uint64_t packet_bytes_ = 0;
  std::uint64_t most_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t threshold_ = ~std::uint64_t{0};  // slow start below it
  std::uint64_t answered_ = 0;                   // bytes so far
  std::uint64_t next_cut_ = 0;                   // no cut until answered_ has reached this
  std::uint64_t credit_ = 0;                     // answered since the last step of growth
};

}  // namespace atp
