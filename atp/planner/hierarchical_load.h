#pragma once

#include "atp/planner/link_load.h"

// One level of a hierarchical all-reduce; aggregation runs these on the levels that cannot sum.

namespace atp::planner {

// Adds the level's links and latency to `cost`. `passing` is what all levels above exchange for the
// members in one unit of this level, in tensors; the return value is the same for one child:
// E_l = 2(a-1)/a + E_{l-1}/a, which is 2(K_l - 1)/K_l when no level above aggregates.
double hierarchical_step(const Interconnect& interconnect, const GroupGeometry& geometry,
                         std::size_t index, double passing, AllReduceCost& cost);

// Volume of a ring all-reduce among the siblings of one level.
double sibling_volume(const GroupLevel& group);

}  // namespace atp::planner
