#pragma once

#include "atp/sim/cluster.h"
#include "atp/sim/run_seed.h"

namespace atp {

// Plays one all-reduce of such a job, judges it, and prints what it took as CSV: workers, racks,
// seconds of this machine, MiB at most, packets, simulated milliseconds until
// all had their sums, and the fragments that
// came to the server as one packet.
sim::Ending run_cluster(const sim::ClusterShape& shape);

}  // namespace atp
