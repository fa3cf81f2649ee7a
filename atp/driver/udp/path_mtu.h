#pragma once

#include <cstddef>
#include <cstdint>

#include "atp/base/result.h"
#include "atp/driver/udp/port_range.h"
#include "atp/wire/endpoint.h"

// How many values a packet may carry without being fragmented by IP.

namespace atp {

// MTU in bytes of the path to `to`: the route's, or less if a probe finds it to be less.
//
// The kernel remembers for ten minutes the path MTU that ICMP reports, and anybody can forge ICMP.
// So its value is only a hint: if it is below the route's MTU, the path is probed (path_probe.h)
// from one of the ports.
Result<std::size_t> path_mtu(const Endpoint& to, PortRange ports = {});

// The smallest MTU in bytes of the interfaces on which a socket bound to `local` receives. (The
// route to a local address would be the loopback's.)
Result<std::size_t> interface_mtu(const Endpoint& local);

// K for an MTU: how many int32 remain after the IPv6 and UDP headers, ours and the bitmap; an even
// number, at most ATP_VALUES_MAX. The IPv6 header counts for IPv4 too, so that a job may mix both.
// 1500 bytes carry 350 values (348 with the tag of a job with a key), 9000 carry 2226. 0: the MTU
// carries none. `tag_bytes`: 0 or ATP_TAG_BYTES.
std::uint16_t values_for_mtu(std::size_t mtu_bytes, std::size_t bitmap_words = 1,
                             std::size_t tag_bytes = 0);

// The inverse: the smallest MTU that carries packets of K values, 1496 for 350.
std::size_t mtu_for_values(std::size_t values, std::size_t bitmap_words = 1,
                           std::size_t tag_bytes = 0);

}  // namespace atp
