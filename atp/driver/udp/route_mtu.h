#pragma once

#include <cstddef>
#include <optional>

#include "atp/base/result.h"
#include "atp/wire/endpoint.h"

// How large packets this host may send.

namespace atp {

// MTU in bytes of the route towards `to`: what the route says, if it does, and no more than its
// interface has. What the kernel has heard of the path behind is not in it.
Result<std::size_t> route_mtu(const Endpoint& to);

// The MTU in bytes that the kernel now believes the path towards `to` to have: the route's, or less
// if ICMP, which anybody can send, has said so in the last ten minutes.
Result<std::size_t> kernels_mtu(const Endpoint& to);

std::optional<std::size_t> mtu_of_interface(const char* name);

}  // namespace atp
