#pragma once

#include <algorithm>
#include <cstdint>

// How many bytes a worker may have on their way to one server shard, over all its streams
// (docs/protocol.md §5). The worker tells the window what happens and asks it before each first
// transmission; a policy decides. FixedWindow keeps what a connection starts with: 200 packets, at
// most 256 KiB (§3.7), which the buffers of an ordinary socket take for a rack of workers.

namespace atp {

class FixedWindow {
 public:
  static constexpr std::uint64_t kInitialPackets = 200;
  static constexpr std::uint64_t kInitialBytesMax = 256 * 1024;

  explicit FixedWindow(std::uint64_t packet_bytes)
      : bytes_(std::max(2 * packet_bytes,
                        std::min(kInitialPackets * packet_bytes, kInitialBytesMax))) {}

  std::uint64_t bytes() const { return bytes_; }
  void on_answer(std::uint64_t /*bytes*/, bool /*ecn*/) {}
  void on_loss() {}

  bool operator==(const FixedWindow&) const = default;

 private:
  std::uint64_t bytes_;
};

using CongestionWindow = FixedWindow;

}  // namespace atp
