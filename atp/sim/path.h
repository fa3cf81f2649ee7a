#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "atp/base/random.h"
#include "atp/base/time.h"
#include "atp/sim/faults.h"

namespace atp::sim {

// What becomes of one packet: the delay of each copy before it is sent; none if the packet is lost.
struct Fate {
  std::array<Duration, 3> waits{};
  std::size_t copies = 0;
  bool corrupted = false;  // the first copy
  bool truncated = false;  // the first copy

  void set_out(Duration wait) { waits[copies++] = wait; }
};

// The faults on the path from one node to another, in that direction. It draws the fate of each
// packet and keeps the state of a burst of losses and of an outage.
class Path {
 public:
  Path() = default;
  Path(const PathFaults& faults, Duration jitter) : faults_(faults), jitter_(jitter) {}

  Fate send(Instant now, Random& random, FaultCounters& counters);
  void clog(Instant until) { clogged_until_ = std::max(clogged_until_, until); }
  void cut(Instant until) { cut_until_ = std::max(cut_until_, until); }
  void heal();

 private:
  bool lost(Instant now, Random& random, FaultCounters& counters);
  Duration wait(Instant now, Random& random, FaultCounters& counters);

  PathFaults faults_;
  Duration jitter_{};
  bool in_burst_ = false;
  Instant clogged_until_{};
  Instant cut_until_{};
};

// The ones' complement sum of UDP's checksum over the payload (RFC 1071).
constexpr std::uint16_t ones_complement_sum(std::span<const std::uint8_t> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += i % 2 == 0 ? std::uint64_t{bytes[i]} << 8 : bytes[i];
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

// Flips one to fifteen bits of one 16-bit word, which the checksum is certain to detect. The link
// layer must find other damage; no protocol above UDP survives it.
inline void damage(std::span<std::uint8_t> bytes, Random& random) {
  if (bytes.size() < 2) return;
  const std::size_t at = 2 * random.below(bytes.size() / 2);
  const std::uint64_t flips = 1 + random.below(0xfffe);
  bytes[at] ^= static_cast<std::uint8_t>(flips >> 8);
  bytes[at + 1] ^= static_cast<std::uint8_t>(flips);
}

}  // namespace atp::sim
