#pragma once

#include <cstdint>
#include <string>

#include "atp/config/site/job_placement.h"
#include "atp/config/site/site.h"
#include "atp/sim/cluster.h"
#include "atp/sim/plan.h"
#include "atp/sim/run_seed.h"

namespace atp {

inline constexpr std::uint16_t kSiteValues = 350;  // per fragment on Ethernet

// The simulated world of a site: one all-reduce of the placed job, of `fragments` fragments with
// kSiteValues values each, over the site's racks, switches, servers and links. The ranks of a host
// share its link equally. Throws FileError if a bandwidth is missing, or if a rack is below another
// rack: every simulated rack has a link to the core.
sim::Plan world_of(const Site& site, const JobPlacement& placement, std::uint32_t fragments);

struct SimSiteOptions {
  std::string file;
  std::string hosts;  // of the job, comma-separated
  std::uint32_t ranks_per_host = 0;
  std::uint32_t fragments = 1000;
};

// Simulates one all-reduce of a job on the cluster of a file, judges it, and prints its time, what
// reached each server, and the share of fragments that the switches summed. Throws CommandError.
sim::Ending run_site(const SimSiteOptions& options);

// Simulates one all-reduce of such a job, judges it, and prints its cost as CSV: ranks, racks,
// seconds on this machine, peak MiB, packets, simulated milliseconds until all ranks had their
// sums, and the fragments that reached the server as one packet.
sim::Ending run_cluster(const sim::ClusterShape& shape);

}  // namespace atp
