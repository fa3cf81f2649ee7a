#pragma once

#include "atp/config/site/site.h"
#include "atp/planner/interconnect.h"

namespace atp {

// The planner's view of a site: levels of racks, hosts and ranks, with aggregation where the racks
// have switches. The planner knows trees of equal units only, so throws FileError where racks or
// hosts differ in number, where a bandwidth is missing, and where racks stand above racks with
// ranks; `levels` in the file then says it. Of links that differ the slowest counts.
planner::Interconnect interconnect_of(const Site& site);

}  // namespace atp
