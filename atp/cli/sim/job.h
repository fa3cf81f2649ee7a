#pragma once

#include <cstdint>
#include <string>

#include "atp/config/site/job_placement.h"
#include "atp/config/site/site.h"
#include "atp/sim/cluster.h"
#include "atp/sim/plan.h"
#include "atp/sim/run_seed.h"

namespace atp {

inline constexpr std::uint16_t kSiteValues = 350;  // of a fragment on Ethernet

// The simulator's world of a site: one all-reduce of the placed job, of so many fragments of
// kSiteValues each, over the site's racks, switches, servers and links. The ranks of a host share
// its link in equal parts. Throws FileError where a bandwidth is missing, and for racks above
// racks: the simulator's racks all have a link to its core.
sim::Plan world_of(const Site& site, const JobPlacement& placement, std::uint32_t fragments);

struct SimSiteOptions {
  std::string file;
  std::string hosts;  // of the job, with commas between
  std::uint32_t ranks_per_host = 0;
  std::uint32_t fragments = 1000;
};

// Plays one all-reduce of a job on the cluster of a file, judges it, and prints its time, what came
// to each server, and the share of the fragments that the switches summed. Throws CommandError.
sim::Ending run_site(const SimSiteOptions& options);

// Plays one all-reduce of such a job, judges it, and prints what it took as CSV: workers, racks,
// seconds of this machine, MiB at most, packets, simulated milliseconds until
// all had their sums, and the fragments that
// came to the server as one packet.
sim::Ending run_cluster(const sim::ClusterShape& shape);

}  // namespace atp
