#pragma once

#include "atp/cli/doctor/facts.h"
#include "atp/wire/endpoint.h"

namespace atp {

// Asks the node for its status, over TCP: which version it is; and of a node that says nothing by
// UDP, whether it runs. In three seconds at most.
void ask_status(const Endpoint& node, NodeFacts& facts);

}  // namespace atp
