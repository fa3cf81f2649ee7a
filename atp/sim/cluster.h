#pragma once

#include <cstdint>

#include "atp/sim/plan.h"

namespace atp::sim {

// A job over many racks, for runs at scale: `rack_size` workers to a rack, each rack with a switch
// node that is the rack's switch, the server in a rack of its own above them. Links of 100 Gbit/s
// and 500 ns, no faults; a fragment carries two values, as its payload's size is the links' affair.
struct ClusterShape {
  std::uint16_t workers = 1024;
  std::uint16_t rack_size = 32;
  std::uint32_t fragments = 100;
};

Plan cluster_plan(const ClusterShape& shape);

}  // namespace atp::sim
