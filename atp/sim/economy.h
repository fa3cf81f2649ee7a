#pragma once

#include <string>
#include <vector>

#include "atp/sim/world.h"

// What a run has cost, beside what its world allows. Only ample worlds (plan.h) are judged, in
// which nothing is scarce: there each fragment needs one packet per member and one per switch,
// nothing is repeated, and everything is given back at once. Where packets are lost, every loss may
// cost a few packets and a time-out, but no more. A product that finds every sum and wastes the
// network on the way holds all other demands.

namespace atp::sim {

// What went against it, in words; nothing of a world that is not ample. To be asked when all
// operations have completed, `took` after the start.
std::vector<std::string> wastes(const World& world, Duration took);

// The same jobs where nothing is lost.
Plan without_loss(Plan plan);

}  // namespace atp::sim
