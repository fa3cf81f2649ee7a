#pragma once

#include <string>
#include <vector>

#include "atp/cli/doctor/facts.h"
#include "atp/wire/endpoint.h"

namespace atp {

// Probes the nodes one after another; each takes about three seconds.
HostFacts look_around(const std::vector<Endpoint>& nodes);

}  // namespace atp
