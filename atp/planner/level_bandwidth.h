#pragma once

#include <cstddef>
#include <cstdint>

#include "atp/planner/bandwidth.h"
#include "atp/planner/interconnect.h"

// The two numbers of one level from which the hierarchical communication matrix is made (paper
// §3.4), each for a child taken as one group of devices.

namespace atp::planner {

// Between two children of one unit; 0 where no link joins them directly, and to itself.
BytesPerSecond pair_bandwidth(const Interconnect& interconnect, std::size_t level,
                              std::uint32_t from, std::uint32_t to);

// From one child to all its siblings: GroupBW of the level.
BytesPerSecond group_bandwidth(const Interconnect& interconnect, std::size_t level);

}  // namespace atp::planner
