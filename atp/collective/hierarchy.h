#pragma once

#include <memory>

#include "atp/collective/base/options.h"
#include "atp/collective/base/transport.h"

namespace atp {

// How the ranks of a communicator get to sum in memory: all on their one host, or those of each
// host before its leader sends for all.
struct MemoryRendezvous {
  std::shared_ptr<Transport> transport;  // null: all ranks use their routes,
  JobKey job;                            // as workers of this job
};

// The job in which every rank is a worker, for when the hosts are the workers of `job` but the
// ranks of some host cannot share memory (docs/inside/protocol §5, *Hosts as workers*).
JobKey job_of_all_ranks(const JobKey& job);

// An error: a rank is missing, or there is neither memory nor a route.
Result<MemoryRendezvous> meet_in_memory(const CommunicatorOptions& options);

}  // namespace atp
