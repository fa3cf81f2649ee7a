#pragma once

#include <cstdint>

#include "atp/config/job_placement.h"
#include "atp/config/site.h"
#include "atp/sim/plan.h"

namespace atp {

inline constexpr std::uint16_t kSiteValues = 350;  // of a fragment on Ethernet

// The simulator's world of a site: one all-reduce of the placed job, of so many fragments of
// kSiteValues each, over the site's racks, switches, servers and links. The ranks of a host share
// its link in equal parts. Throws FileError where a bandwidth is missing, and for racks above
// racks: the simulator's racks all have a link to its core.
sim::Plan world_of(const Site& site, const JobPlacement& placement, std::uint32_t fragments);

}  // namespace atp
