#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "atp/sim/clock.h"
#include "atp/sim/link.h"
#include "atp/wire/endpoint.h"

// The network without the nodes: links, packets in flight, and the order of all events.
//
// A host is in a rack and has a link to the rack's switching fabric and one from it. Racks have a
// link to the core of the network and one from it, whose fabric does not block. So a packet passes
// two or four links, each a FIFO with rate, delay, finite queue and ECN threshold. A link with an
// empty plan is left out, as are those of a programmable switch that is the rack's switch itself.
//
// There is one event per link and packet, since a FIFO's arrival is known at once. The heap holds
// one entry per busy link, not one per packet. The copies of a multicast share their bytes.

namespace atp::sim {

using HostId = std::uint32_t;
inline constexpr HostId kNoHost = ~HostId{0};

// The host at an endpoint. It is looked up for every packet, so this is a flat table with open
// addressing, at most half full, without removal.
class EndpointMap {
 public:
  void insert(const Endpoint& endpoint, std::uint32_t host) {
    if (2 * ++size_ > entries_.size()) grow();
    entries_[place_of(endpoint)] = {endpoint, host};
  }
  std::optional<std::uint32_t> find(const Endpoint& endpoint) const {
    const Entry& entry = entries_[place_of(endpoint)];
    return entry.host == kFree ? std::nullopt : std::optional(entry.host);
  }

 private:
  static constexpr std::uint32_t kFree = ~std::uint32_t{0};
  struct Entry {
    Endpoint endpoint;
    std::uint32_t host = kFree;
  };

  static std::uint64_t hash(const Endpoint& endpoint) {
    std::uint64_t low = 0;
    std::memcpy(&low, endpoint.address.data() + 8, sizeof low);
    return (low ^ endpoint.port) * 0x9e3779b97f4a7c15 >> 20;
  }
  // The place of an endpoint, or the place to insert it.
  std::size_t place_of(const Endpoint& endpoint) const {
    std::size_t at = hash(endpoint) & (entries_.size() - 1);
    while (entries_[at].host != kFree && entries_[at].endpoint != endpoint) {
      at = (at + 1) & (entries_.size() - 1);
    }
    return at;
  }
  void grow() {
    std::vector<Entry> old(2 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.host != kFree) entries_[place_of(entry.endpoint)] = entry;
    }
  }

  std::vector<Entry> entries_ = std::vector<Entry>(16);
  std::size_t size_ = 0;
};

class Network {
 public:
  enum class EventKind : std::uint8_t { kLink, kFlight, kTimer, kAction, kUnreachable };
  struct Event {
    EventKind kind = EventKind::kLink;
    std::uint32_t index = 0;  // of the link or flight; kTimer: the host; kAction: the caller's
  };

  // A packet in flight. Its bytes are in the pool.
  struct Flight {
    Endpoint from;
    Endpoint to;
    HostId sender = kNoHost;
    HostId receiver = kNoHost;
    std::uint32_t payload = 0;
    std::uint32_t length = 0;  // less than the payload's if it was cut short
    std::array<std::uint16_t, 4> links{};
    std::uint8_t hops = 0;
    std::uint8_t hop = 0;
    bool marked = false;  // ECN: a link on its way was congested
  };

  // Hosts and racks are numbered in the order of their creation; a rack that is used before it is
  // added gets `rack_link`.
  void add_rack(const LinkPlan& link);
  HostId add_host(std::uint32_t rack, const LinkPlan& link, const LinkPlan& rack_link);

  std::uint32_t put_payload(std::span<const std::uint8_t> bytes);
  void hold_payload(std::uint32_t payload) { ++payloads_[payload].users; }
  void drop_payload(std::uint32_t payload);
  std::span<const std::uint8_t> bytes_of(const Flight& flight) const {
    return std::span(payloads_[flight.payload].bytes).first(flight.length);
  }

  // Sends flight.payload from its sender to its receiver, starting after `wait`. Without a sender
  // it simply arrives after the wait.
  void send(Picoseconds now, Flight flight, Picoseconds wait);
  // The flight of an event that take_next() returned.
  const Flight& flight(std::uint32_t index) const { return flights_[index]; }
  void end_flight(std::uint32_t index);
  void again(Picoseconds when, const Event& event) { queue_.push(when, event); }

  // The time of the next event of any kind.
  Picoseconds next() const { return queue_.next(); }
  // Moves packets from link to link and returns the next event of another kind; nothing if there is
  // none until `end`.
  std::optional<Event> take_next(Picoseconds end);
  // When the event last taken was due.
  Picoseconds now() const { return now_; }

  std::size_t in_flight() const { return flights_.size() - free_flights_.size(); }
  std::uint64_t steps() const { return steps_; }  // packets that arrived over a link
  std::uint64_t lost_in_queues() const { return lost_; }
  std::uint64_t marked() const { return marked_; }
  void lift_queue_limits();

 private:
  struct Payload {
    std::vector<std::uint8_t> bytes;
    std::uint32_t users = 0;
  };
  struct Port {
    std::uint32_t rack = 0;
    std::uint16_t up = kNoLink;
    std::uint16_t down = kNoLink;
  };
  static constexpr std::uint16_t kNoLink = 0xffff;

  Port make_port(std::uint32_t rack, const LinkPlan& plan);
  void find_way(Flight& flight) const;
  // Puts a flight into its next link; false if it has passed all of them.
  bool step(Picoseconds now, std::uint32_t flight);

  std::vector<Link> links_;
  std::vector<Port> hosts_;
  std::vector<Port> racks_;
  std::vector<Payload> payloads_;
  std::vector<std::uint32_t> free_payloads_;
  std::vector<Flight> flights_;
  std::vector<std::uint32_t> free_flights_;
  EventQueue<Event> queue_;
  Picoseconds now_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t marked_ = 0;
};

}  // namespace atp::sim
