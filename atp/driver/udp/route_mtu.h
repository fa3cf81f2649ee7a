#pragma once

#include <cstddef>
#include <optional>

#include "atp/base/result.h"
#include "atp/wire/endpoint.h"

// What the routing table says about packets from this host: their size, and their source.

namespace atp {

// MTU in bytes of the route to `to`: the smaller of the route's own, if configured, and its
// interface's. What the kernel has learned about the path beyond does not count.
Result<std::size_t> route_mtu(const Endpoint& to);

// The MTU in bytes that the kernel currently assumes for the path to `to`: the route's, or less if
// ICMP, which anybody can forge, has reported so in the last ten minutes.
Result<std::size_t> kernels_mtu(const Endpoint& to);

std::optional<std::size_t> mtu_of_interface(const char* name);

// The address, with port 0, from which this host sends to `to` if the socket is bound to none.
Result<Endpoint> route_source(const Endpoint& to);

}  // namespace atp
