#pragma once

#include <cstddef>
#include <cstdint>

#include "atp/base/result.h"
#include "atp/driver/udp/port_range.h"
#include "atp/wire/endpoint.h"

// How many values a packet may carry, so that nothing is ever fragmented by IP.

namespace atp {

// MTU in bytes of the path towards `to`: that of the route, or less if it has been seen to be less.
//
// The kernel remembers for ten minutes what ICMP tells it of a path, and anybody can tell it
// anything. So its word is taken for a rumour, and where that is less than the route's, the path
// itself is asked (path_probe.h), from one of the ports.
Result<std::size_t> path_mtu(const Endpoint& to, PortRange ports = {});

// The smallest MTU in bytes of the interfaces that a socket bound to `local` receives on. (The
// route towards an own address would be the loopback's.)
Result<std::size_t> interface_mtu(const Endpoint& local);

// K for an MTU: what remains after IPv6 and UDP headers, ours and the bitmap, in int32, even, at
// most ATP_VALUES_MAX. IPv6's header counts for IPv4 too, so that a job may mix them. 1500 bytes
// carry 350 values, 9000 carry 2226. 0: the MTU carries none.
std::uint16_t values_for_mtu(std::size_t mtu_bytes, std::size_t bitmap_words = 1);

// The other way round: the least MTU that carries packets of K values, 1496 for 350.
std::size_t mtu_for_values(std::size_t values, std::size_t bitmap_words = 1);

}  // namespace atp
