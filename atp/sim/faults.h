#pragma once

#include <cstdint>
#include <string_view>

#include "atp/base/counters.h"
#include "atp/base/time.h"

// The faults that the simulator causes. Every fault that actually happens is counted, so that a
// test can tell whether a run had any.

namespace atp::sim {

enum class Fault : std::uint8_t {
  kLoss,         // one packet, independently
  kBurstLoss,    // one packet of a burst of losses
  kOneWayLoss,   // one packet of a path that carries nothing for a time, unlike the reverse path
  kQueueLoss,    // one packet, dropped by a link whose queue is full
  kOutboxLoss,   // one packet, dropped by its sender, whose outbox is full
  kDuplicate,    // delivered twice
  kDelay,        // held back, so that later packets overtake it
  kStale,        // a copy arrives very much later
  kCorruption,   // damaged, so that UDP's checksum fails: dropped on receipt
  kTruncation,   // cut short, and delivered
  kForeign,      // a changed packet from an address that belongs to nobody
  kDishonest,    // a packet from a member's own address that no honest member sends
  kMove,         // a member's own JOIN, through another switch
  kMisdirected,  // a captured JOIN or STATUS, unchanged and from its sender, to another node
  kPhantom,      // JOINs of an attacker for the ranks of a job that has begun
  kEarlierLife,  // a member's packet of an earlier incarnation of the job
  kEcnMark,      // by a link whose queue is long
  kClog,         // a path holds all packets for a time, then delivers them
  kPause,        // a node is stopped for a time (a straggler, if it is a worker)
  kSwitchDeath,  // a switch forgets everything
  kSwitchReturn,
  kServerDeath,
  kServerReturn,      // with a new boot id
  kWorkerDeath,       // a process with all its sockets
  kWorkerReturn,      // with a new nonce
  kDeadSwitchPacket,  // a packet that reached a dead switch
  kUnreachable,       // a packet that reached a dead node, reported to its sender
  kLateStart,         // a rank that joins long after the others
  kMismatch,          // a rank submits another operation than the others
  kAbort,             // a rank leaves with a cause before its last operation
  kAddressChange,     // a rank's packets come from another address from now on
  kCount,
};

std::string_view to_string(Fault fault);

using FaultCounters = Counters<Fault>;

// The path from one node to another. Probabilities are per packet and end with the heal time.
struct PathFaults {
  double loss = 0;
  double burst_begin = 0;  // a burst of losses begins
  double burst_end = 0.5;  // the burst ends, drawn at each of its packets
  double duplicate = 0;
  double held_back = 0;
  Duration held_back_max{};
  double corrupt = 0;
  double truncate = 0;
  double stale = 0;
  Duration stale_max{};
  bool operator==(const PathFaults&) const = default;
};

// A fault that lasts for a time.
struct Outage {
  enum class Kind : std::uint8_t { kClog, kOneWay, kPause, kDeath, kMove };
  static constexpr Duration kForever = Duration::max();

  Kind kind = Kind::kClog;
  Instant at{};
  Duration length{};       // kForever: the node stays dead
  std::uint32_t host = 0;  // index of the node, in the order of the world's hosts
  std::uint32_t peer = 0;  // kClog, kOneWay: the path host → peer
};

}  // namespace atp::sim
