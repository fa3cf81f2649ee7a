#pragma once

#include <string>
#include <vector>

#include "atp/sim/world.h"

// Compares the cost of a run with what its world allows. Only ample worlds (plan.h) are judged, in
// which nothing is scarce: each fragment needs one packet per member and one per switch, nothing is
// repeated, and everything is released at once. If packets are lost, every loss may cost a few
// packets and a time-out, but no more. Without this check, an implementation that is correct but
// wastes the network would pass all other checks.

namespace atp::sim {

// The violations, as text; none for a world that is not ample. Call it when all operations have
// completed, `took` after the start.
std::vector<std::string> wastes(const World& world, Duration took);

// The same plan without losses.
Plan without_loss(Plan plan);

}  // namespace atp::sim
