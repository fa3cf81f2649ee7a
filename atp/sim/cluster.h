#pragma once

#include <cstdint>

#include "atp/sim/plan.h"

namespace atp::sim {

// A job over many racks, for runs at scale: `rack_size` workers per rack, a switch node in place of
// each rack's switch, and the server in a rack of its own above them. Links have a rate of 100
// Gbit/s and a delay of 500 ns; there are no faults. A fragment carries two values; only the links
// depend on its payload's size.
struct ClusterShape {
  std::uint16_t workers = 1024;
  std::uint16_t rack_size = 32;
  std::uint32_t fragments = 100;
};

Plan cluster_plan(const ClusterShape& shape);

}  // namespace atp::sim
