#pragma once

#include <cstdint>

#include "atp/base/counters.h"
#include "atp/base/time.h"
#include "atp/core/outbox.h"
#include "atp/wire/endpoint.h"
#include "atp/wire/packet_view.h"

// What the core's handlers are given: a Turn in every node, and for a packet an Arrival in switch
// and server. The parts of a node never keep them, so that their state stays plain data.

namespace atp {

// One call into a node: its time, its configuration, and where counts and packets go. Each node
// adds what its parts need (WorkerTurn, SwitchTurn, ServerTurn).
template <class Config, class Counter>
struct Turn {
  Instant now;
  const Config& config;
  Counters<Counter>& counters;
  Outbox& out;

  void count(Counter counter, std::uint64_t amount = 1) { counters.add(counter, amount); }
};

// The parsed packet of this turn, its sender, and the node's own address that it was sent to.
struct Arrival {
  const Endpoint& from;
  const Endpoint& to;
  const PacketView& packet;
};

}  // namespace atp
