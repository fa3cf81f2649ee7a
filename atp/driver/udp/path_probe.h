#pragma once

#include <cstddef>

#include "atp/base/result.h"
#include "atp/driver/udp/port_range.h"
#include "atp/wire/endpoint.h"

namespace atp {

// Finds the MTU in bytes of the path to `to` by sending fragments as large as `most` carries. The
// result is `most` unless a router reports less and quotes one of them.
//
// The fragments belong to a job that does not exist. An atp node answers them, and a host without
// one reports an unreachable port, which takes a round trip. A path that gives neither is tried
// three times and then assumed to carry them.
Result<std::size_t> probe_path(const Endpoint& to, std::size_t most, PortRange ports = {});

}  // namespace atp
