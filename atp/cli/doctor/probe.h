#pragma once

#include <string>
#include <vector>

#include "atp/cli/doctor/facts.h"
#include "atp/wire/endpoint.h"

namespace atp {

// Asks the nodes, one after another: about two seconds each.
HostFacts look_around(const std::vector<Endpoint>& nodes);

}  // namespace atp
