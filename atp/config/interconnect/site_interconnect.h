#pragma once

#include "atp/config/site/site.h"
#include "atp/planner/interconnect.h"

namespace atp {

// The planner's view of a site: levels of racks, hosts and ranks, with aggregation if the racks
// have switches. The planner knows only trees of equal units, so this throws FileError if racks or
// hosts differ in size, a bandwidth is missing, or racks are above racks with ranks; such a file
// needs `levels`. If links differ, the slowest counts.
planner::Interconnect interconnect_of(const Site& site);

}  // namespace atp
