#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "atp/base/result.h"
#include "atp/config/text/file.h"
#include "atp/config/text/yaml.h"

// The key `jobs` of a cluster file: the weights of jobs, by which switches share aggregators where
// these are scarce (docs/use/cluster.md).
//
//   jobs:
//     - {job: 7, weight: 4}
//     - {job: 100-199, weight: 2, tenant: vision}

namespace atp {

constexpr int kMostJobWeight = 1000;

struct JobWeight {
  std::uint32_t first = 0;  // the numbers of the jobs
  std::uint32_t last = 0;
  std::uint32_t weight = 1;
  std::string tenant;  // whose jobs; empty: those without a key
  Place place;

  bool holds(std::uint32_t job, std::string_view of_tenant) const {
    return first <= job && job <= last && tenant == of_tenant;
  }
  // "job 7", "jobs 100-199 of vision"
  std::string jobs_text() const;
};

// Throws FileError. No two entries hold for the same job.
std::vector<JobWeight> read_job_weights(const YamlValue& jobs);

// Reads only the key `jobs`; without it, there are none.
Result<std::vector<JobWeight>> read_job_weights_file(const std::string& path);

}  // namespace atp
