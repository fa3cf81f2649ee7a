#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>

#include "atp/base/result.h"
#include "atp/wire/endpoint.h"

// The ports that a firewall leaves open to a rank (ATP_PORT_RANGE), for what it receives on and has
// no fixed port for: its UDP sockets, and the TCP ports at which other ranks connect to it.

namespace atp {

// The first and the last; 0 and 0: any that is free.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;

  bool is_any() const { return first == 0; }
};

// What `open(address)` makes at the first port of the range that is free. The processes of a host
// begin at different ones, so that few try one that is taken.
template <typename Open>
auto open_within(PortRange range, Endpoint at, Open open) -> decltype(open(at)) {
  const auto ports = static_cast<std::uint32_t>(range.last - range.first + 1);
  const auto begin = static_cast<std::uint32_t>(getpid()) % ports;
  Error last{"no port"};
  for (std::uint32_t i = 0; i < ports; ++i) {
    at.port = static_cast<std::uint16_t>(range.first + (begin + i) % ports);
    auto opened = open(at);
    if (opened) return opened;
    last = opened.error();
  }
  return Error{"no port from " + std::to_string(range.first) + " to " + std::to_string(range.last) +
               " is free: " + last.message};
}

}  // namespace atp
