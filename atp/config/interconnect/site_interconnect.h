#pragma once

#include "atp/config/site/site.h"
#include "atp/planner/interconnect.h"

namespace atp {

// The planner's view of a site: levels of racks, hosts and ranks, with aggregation if the racks
// have switches. The planner knows only trees of equal units, so this throws FileError if racks or
// hosts differ in size, if a bandwidth is missing, or if a rack with ranks is below another rack;
// such a file needs `levels`. If links differ, the slowest counts.
planner::Interconnect interconnect_of(const Site& site);

}  // namespace atp
