#pragma once

#include <cstdint>
#include <string>

#include "atp/sim/run_seed.h"

namespace atp {

struct SimSiteOptions {
  std::string file;
  std::string hosts;  // of the job, with commas between
  std::uint32_t ranks_per_host = 0;
  std::uint32_t fragments = 1000;
};

// Plays one all-reduce of a job on the cluster of a file, judges it, and prints its time, what came
// to each server, and the share of the fragments that the switches summed. Throws CommandError.
sim::Ending run_site(const SimSiteOptions& options);

}  // namespace atp
