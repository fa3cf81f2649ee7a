#pragma once

#include <cstdint>

#include "atp/core/worker/worker_api.h"

// How many bytes a worker may have on their way to one server shard, over all its streams
// (docs/protocol.md §5, *Congestion*; paper §3.7). The worker tells the window what happens and
// asks it before each first transmission; the policy decides.
//
// It starts with 200 packets, at most 256 KiB. Policy kAimd: slow start up to a threshold, then
// 1,500 bytes more for each window; a loss halves it, ECN takes a fifth, once for each window, to
// no less than two packets (H30). A mark comes from a queue that has only begun, so less has to go
// than where one has overflowed (RFC 8511, and its figure). It counts bytes, so that a job with
// large packets gets no larger share. A COLLISION says that aggregators are scarce, not bandwidth,
// and is none of its business.

namespace atp {

class CongestionWindow {
 public:
  static constexpr std::uint64_t kInitialPackets = 200;
  static constexpr std::uint64_t kInitialBytesMax = 256 * 1024;

  CongestionWindow() = default;
  // It never grows beyond `most`, what the streams can have in flight.
  CongestionWindow(CongestionPolicy policy, std::uint64_t packet_bytes, std::uint64_t most);

  std::uint64_t bytes() const { return bytes_; }
  // `bytes` were answered. `limited`: the window, not the application, has held packets back.
  // Returns whether the window was cut.
  bool on_answer(std::uint64_t bytes, bool ecn, bool limited);
  bool on_loss() { return cut(bytes_ / 2); }

  bool operator==(const CongestionWindow&) const = default;

 private:
  void grow(std::uint64_t answered);
  bool cut(std::uint64_t bytes);

  CongestionPolicy policy_ = CongestionPolicy::kNone;
  std::uint64_t packet_bytes_ = 0;
  std::uint64_t most_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t threshold_ = ~std::uint64_t{0};  // slow start below it
  std::uint64_t answered_ = 0;                   // since the last cut
  std::uint64_t next_cut_ = 0;                   // by then a window of answers has shown its effect
  std::uint64_t credit_ = 0;                     // answered since the last packet of growth
};

}  // namespace atp
