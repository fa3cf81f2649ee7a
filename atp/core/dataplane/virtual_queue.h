#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "atp/base/time.h"

// The queue that a link of a given rate would have, for a switch in user space cannot see the real
// one (docs/protocol.md §4). It holds no packets: the bytes sent drain by the clock, so the whole
// queue is the moment at which it will be empty. It marks and never delays; rate 0 never marks.

namespace atp {

class VirtualQueue {
 public:
  // Marks what would wait longer than `threshold`.
  VirtualQueue(std::uint64_t bits_per_s, Duration threshold)
      : bits_per_s_(bits_per_s), threshold_(threshold) {}

  // A UDP payload of this many bytes leaves now. Returns whether it meets congestion.
  bool send(Instant now, std::size_t bytes) {
    if (bits_per_s_ == 0) return false;
    const std::uint64_t wire_bits = (bytes + kOverheadBytes) * 8;
    empty_at_ = std::max(empty_at_, now) + Duration(wire_bits * 1'000'000'000 / bits_per_s_);
    return empty_at_ - now > threshold_;
  }

  bool operator==(const VirtualQueue&) const = default;

 private:
  // Preamble, Ethernet, IPv4, UDP, checksum and gap.
  static constexpr std::size_t kOverheadBytes = 66;

  std::uint64_t bits_per_s_;
  Duration threshold_;
  Instant empty_at_{};
};

}  // namespace atp
