#pragma once

#include <cstdint>

#include "atp/base/counters.h"
#include "atp/base/time.h"
#include "atp/core/outbox.h"
#include "atp/wire/endpoint.h"
#include "atp/wire/packet_view.h"

// What every handler of the core gets, in worker, switch and server alike. The parts of a node take
// both as arguments and never keep them, so that their state stays plain data.

namespace atp {

// One call into a node: when it is, and where counts and packets go. Each node adds what else its
// parts may use (WorkerTurn, SwitchTurn, ServerTurn).
template <class Config, class Counter>
struct Turn {
  Instant now;
  const Config& config;
  Counters<Counter>& counters;
  Outbox& out;

  void count(Counter counter, std::uint64_t amount = 1) { counters.add(counter, amount); }
};

// The packet of this turn, which has been parsed, and who sent it.
struct Arrival {
  const Endpoint& from;
  const PacketView& packet;
};

}  // namespace atp
