#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>

#include "atp/base/result.h"
#include "atp/wire/endpoint.h"

// The ports that a firewall leaves open for a rank (ATP_PORT_RANGE). A rank uses them for sockets
// without a fixed port: its UDP sockets, and the TCP ports to which other ranks connect.

namespace atp {

// The first and the last port; 0 and 0: any free port.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;

  bool is_any() const { return first == 0; }
};

// Returns what `open(address)` makes at the first free port of the range. Processes of a host begin
// at different ports, so that few try a port that is taken.
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
