#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atp/cli/host_part.h"
#include "atp/config/job_placement.h"
#include "atp/config/site.h"

// What a cluster file gives to one of its hosts: switches and servers, and a job's ranks.

namespace atp {

// The switches and servers that run on the host, each with the arguments that the file implies.
std::vector<NodePlan> nodes_of(const Site& site, std::uint32_t host);

struct JobOptions {
  std::uint32_t job = 0;
  std::optional<std::uint32_t> incarnation;
  std::uint16_t master_port = 0;  // 0: one that follows from the job
  std::uint32_t values = 0;
};

// What the job's ranks on the host are told.
JobEnvironment environment_of(const Site& site, const JobPlacement& placement,
                              const PlacedRanks& placed, const JobOptions& options);

}  // namespace atp
