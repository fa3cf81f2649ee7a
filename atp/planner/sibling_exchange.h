#pragma once

#include "atp/planner/group_geometry.h"
#include "atp/planner/interconnect.h"

// How full the direct links of a ring, torus, full or pairs level become when siblings run a ring.
// "Ring of volume c" means that every hop carries c times the tensor, half in each direction.

namespace atp::planner {

// The load on the fullest link, per unit of c, by all groups that share it, when the hops end where
// they began (is_closed) or pass from the first sibling to the last only, because the ring goes on
// in another unit.
double ring_hop_load(const Level& level, const GroupLevel& group, bool is_closed);

// On a level of full or pairs, rings in every order of the siblings (or a direct exchange: it is
// the same) spread the hops over all links.
double full_hop_load(const GroupLevel& group, bool is_closed);

}  // namespace atp::planner
