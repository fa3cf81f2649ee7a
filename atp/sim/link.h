#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "atp/sim/clock.h"

namespace atp::sim {

// One direction of a cable, or a host's processing of the packets that it receives.
struct LinkPlan {
  std::uint64_t bits_per_s = 0;   // 0: a packet's length takes no time
  Duration packet_time{};         // per packet, whatever its length
  Duration delay{};               // from the end of the transmission to the arrival
  std::uint64_t queue_bytes = 0;  // a packet behind more bytes is lost; 0: no limit
  std::uint64_t ecn_bytes = 0;    // a packet behind more bytes is marked; 0: never

  bool operator==(const LinkPlan&) const = default;
  bool absent() const { return *this == LinkPlan{}; }
};

// The bytes that IPv4, UDP and Ethernet add to a packet, with preamble, checksum and gap.
inline constexpr std::uint64_t kWireOverheadBytes = 66;

// A link is a FIFO, so a packet's arrival is known when it is offered: its transmission ends after
// all those before it. The queue's bytes follow from the times at which transmissions end, so the
// end of a transmission needs no event, and arrivals are in order.
class Link {
 public:
  struct Waiting {
    Picoseconds arrival;
    std::uint64_t number;  // the order of events at one instant
    std::uint32_t flight;
    std::uint32_t bytes;  // on the wire
  };

  explicit Link(const LinkPlan& plan);

  enum class Offer : std::uint8_t { kTaken, kMarked, kLost };
  Offer offer(Picoseconds now, std::uint64_t bytes, std::uint64_t number, std::uint32_t flight);
  void lift_queue_limit() { queue_limit_ = kNeverPs; }

  bool idle() const { return count_ == 0; }
  std::size_t in_flight() const { return count_; }
  const Waiting& first() const { return ring_[first_]; }
  void take_first() {
    if (sent_ == 0) pass_sent();
    --sent_;
    first_ = (first_ + 1) & (ring_.size() - 1);
    --count_;
  }

 private:
  void put(const Waiting& waiting);
  Picoseconds service(std::uint32_t bytes) const;
  Picoseconds sending_time(Picoseconds now);
  void pass_sent() { queued_bytes_ -= at(sent_++).bytes; }
  const Waiting& at(std::size_t i) const { return ring_[(first_ + i) & (ring_.size() - 1)]; }

  Picoseconds per_byte_;
  Picoseconds per_packet_;
  Picoseconds delay_;
  Picoseconds queue_limit_;  // as a time, at the link's rate
  Picoseconds ecn_limit_;
  Picoseconds busy_until_ = 0;
  std::vector<Waiting> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::size_t sent_ = 0;            // of these, known to have left the queue
  std::uint64_t queued_bytes_ = 0;  // of the others
};

}  // namespace atp::sim
