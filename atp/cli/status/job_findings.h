#pragma once

#include <string>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/cli/status/finding.h"
#include "atp/cli/status/node_status.h"

// Which ranks are at fault in a job, as one node knows it or as several do.

namespace atp {

struct JobFacts {
  JobName name;
  RankSet lost, left, missing, detached;
  std::vector<StuckRank> stuck;  // in ascending order
  double waited_s = 0;           // for the stuck ranks
  std::string waits_in;          // the operation, as the ranks call it; "" if unknown
};

// What a text names with their hosts, of ranks that hold up a job.
inline constexpr std::size_t kMostNamed = 8;

std::vector<Finding> findings_of(const JobFacts& job, double now_s);
Finding finding_of(const FailedJob& failure);

// From what one node says of its jobs' ranges of streams, and of those that have failed. Whether it
// misses ranks or they have left their switch is not among them: that is seen better elsewhere.
std::vector<Finding> findings_of(const std::vector<JobStatus>& ranges,
                                 const std::vector<FailedJob>& failures, double now_s);

}  // namespace atp
