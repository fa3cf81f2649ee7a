#pragma once

#include <cstddef>

#include "atp/base/result.h"
#include "atp/driver/udp/port_range.h"
#include "atp/wire/endpoint.h"

namespace atp {

// The MTU in bytes of the path towards `to`, found out by sending fragments as large as `most`
// carries: `most`, unless a router says less that quotes one of them.
//
// They belong to a job that does not exist. A node of ours answers that, and a host where none runs
// says so, which takes a round trip; a path on which neither comes is tried three times, and then
// taken for one that carries them.
Result<std::size_t> probe_path(const Endpoint& to, std::size_t most, PortRange ports = {});

}  // namespace atp
