#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "atp/sim/clock.h"

namespace atp::sim {

// One direction of a cable, or a host's service of what it receives.
struct LinkPlan {
  std::uint64_t bits_per_s = 0;   // 0: a packet takes no time for its length
  Duration packet_time{};         // and this for being a packet
  Duration delay{};               // from the end of sending to the arrival
  std::uint64_t queue_bytes = 0;  // what finds more before it is lost; 0: endless
  std::uint64_t ecn_bytes = 0;    // what finds more before it is marked; 0: none is

  bool operator==(const LinkPlan&) const = default;
  bool absent() const { return *this == LinkPlan{}; }
};

// What IPv4, UDP and Ethernet add to a packet, with preamble, check sum and gap.
inline constexpr std::uint64_t kWireOverheadBytes = 66;

// A link is a FIFO, so a packet's arrival is known when it is offered: it ends its transmission
// after all those before it. What is waiting follows from the time at which the link comes free;
// no event is needed for the end of a transmission, and arrivals are in order.
class Link {
 public:
  struct Waiting {
    Picoseconds arrival;
    std::uint64_t number;  // the order of events at one instant
    std::uint32_t flight;
  };

  explicit Link(const LinkPlan& plan);

  enum class Offer : std::uint8_t { kTaken, kMarked, kLost };
  Offer offer(Picoseconds now, std::uint64_t bytes, std::uint64_t number, std::uint32_t flight);
  void lift_queue_limit() { queue_limit_ = kNeverPs; }

  bool idle() const { return count_ == 0; }
  std::size_t in_flight() const { return count_; }
  const Waiting& first() const { return ring_[first_]; }
  void take_first() {
    first_ = (first_ + 1) & (ring_.size() - 1);
    --count_;
  }

 private:
  void put(const Waiting& waiting);

  Picoseconds per_byte_;
  Picoseconds per_packet_;
  Picoseconds delay_;
  Picoseconds queue_limit_;  // as time, at the link's rate
  Picoseconds ecn_limit_;
  Picoseconds busy_until_ = 0;
  std::vector<Waiting> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace atp::sim
