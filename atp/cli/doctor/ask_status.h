#pragma once

#include "atp/cli/doctor/facts.h"
#include "atp/wire/endpoint.h"

namespace atp {

// Asks the node for its status over TCP, to learn its version and, if it does not answer over UDP,
// whether it is running. Takes at most three seconds.
void ask_status(const Endpoint& node, NodeFacts& facts);

}  // namespace atp
