#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "atp/base/result.h"
#include "atp/config/site/site.h"

// The hosts of a site that a job runs on, and its ranks on each.

namespace atp {

struct PlacedRanks {
  std::uint32_t host = 0;
  std::uint32_t first_rank = 0;
  std::uint32_t ranks = 0;
};

struct JobPlacement {
  std::vector<PlacedRanks> hosts;  // in rank order; rank 0 is on the first
  std::uint32_t world_size = 0;

  const PlacedRanks* on_host(std::uint32_t host) const;  // null: it has no rank of the job
};

// One sender on each host, because the ranks of a host sum in its memory first.
JobPlacement summed_on_hosts(JobPlacement placement);

// The names in "a,b,c"; none in "". In "a," the second is empty, which place_job() reports.
std::vector<std::string> names_in(std::string_view list);

// Places the job on `hosts`, in rank order; none: on all hosts with ranks, in the file's order.
// `ranks_per_host` overrides the file's numbers unless it is 0.
Result<JobPlacement> place_job(const Site& site, const std::vector<std::string>& hosts,
                               std::uint32_t ranks_per_host);

}  // namespace atp
