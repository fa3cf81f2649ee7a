#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "atp/base/result.h"
#include "atp/config/site/site.h"

// Which hosts of a site a job runs on, and which of its ranks on each.

namespace atp {

struct PlacedRanks {
  std::uint32_t host = 0;
  std::uint32_t first_rank = 0;
  std::uint32_t ranks = 0;
};

struct JobPlacement {
  std::vector<PlacedRanks> hosts;  // in the order of their ranks; rank 0 is on the first
  std::uint32_t world_size = 0;

  const PlacedRanks* on_host(std::uint32_t host) const;  // null: no rank of the job runs there
};

// The names in "a,b,c", one by one; none in "". Of "a," the second is empty, and place_job() says
// so.
std::vector<std::string> names_in(std::string_view list);

// `hosts` by name, in the order of their ranks; none: all hosts that have ranks, in the file's
// order. `ranks_per_host` in place of the file's numbers unless it is 0.
Result<JobPlacement> place_job(const Site& site, const std::vector<std::string>& hosts,
                               std::uint32_t ranks_per_host);

}  // namespace atp
