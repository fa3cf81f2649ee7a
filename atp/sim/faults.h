#pragma once

#include <cstdint>
#include <string_view>

#include "atp/base/counters.h"
#include "atp/base/time.h"

// What the virtual network does to the nodes. Every fault that really happens is counted, so that
// a test can tell a quiet run from a run whose probabilities came out as nothing.

namespace atp::sim {

enum class Fault : std::uint8_t {
  kLoss,         // one packet, independently
  kBurstLoss,    // one packet of a run of losses
  kDuplicate,    // delivered twice
  kDelay,        // held back, so that later packets overtake it
  kClog,         // a path stands still for a time, then delivers everything
  kPause,        // a worker stands still for a time (a straggler)
  kSwitchDeath,  // a switch forgets everything
  kSwitchReturn,
  kDeadSwitchPacket,  // a packet that reached a dead node
  kUnreachable,       // … and was reported to its sender
  kLateStart,         // a rank that joins long after the others
  kCount,
};

std::string_view to_string(Fault fault);

using FaultCounters = Counters<Fault>;

// The path from one node to another. Probabilities are per packet and end with the heal time;
// delay and jitter are the network's own and stay.
struct PathFaults {
  double loss = 0;
  double burst_begin = 0;  // a run of losses begins
  double burst_end = 0.5;  // … and ends, asked at each packet of the run
  double duplicate = 0;
  double held_back = 0;
  Duration held_back_max{};
  bool operator==(const PathFaults&) const = default;
};

struct PathDelay {
  Duration base = std::chrono::microseconds(20);
  Duration jitter{};
};

// A fault with a beginning and an end.
struct Outage {
  enum class Kind : std::uint8_t { kClog, kPause, kSwitchDeath };
  static constexpr Duration kForever = Duration::max();

  Kind kind = Kind::kClog;
  Instant at{};
  Duration length{};       // kForever: the switch stays dead
  std::uint32_t host = 0;  // index of the node, in the order of the world's hosts
  std::uint32_t peer = 0;  // kClog: the path host → peer
};

}  // namespace atp::sim
