#pragma once

#include <map>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/cli/command/log.h"
#include "atp/cli/node/node_keys.h"
#include "atp/core/dataplane/switch_node.h"
#include "atp/core/server/server.h"

// The log lines of a switch or server about ranks that are gone while their job goes on: those that
// left, and, at a server, those that were silent for a lease. Counters only say how many.

namespace atp {

struct GoneRanks {
  JobKey job;
  RankSet left;
  RankSet lost;
};
// One entry per job, whatever its stream ranges.
std::vector<GoneRanks> gone_ranks_of(const Server& server, Instant now);
std::vector<GoneRanks> gone_ranks_of(const SwitchNode& node, Instant now);

// One line for each job that has failed since the last call.
class FailureLog {
 public:
  explicit FailureLog(const JobNames& names = JobNames()) : names_(names) {}
  std::vector<LogLine> lines(const JobFailures& failures);

 private:
  const JobNames names_;
  std::uint64_t logged_ = 0;
};

class GoneLog {
 public:
  explicit GoneLog(const JobNames& names = JobNames()) : names_(names) {}

  // The lines for the ranks that have gone since the last call. Jobs that are not in `now_gone` are
  // forgotten.
  std::vector<LogLine> lines(const std::vector<GoneRanks>& now_gone);

 private:
  const JobNames names_;
  std::map<JobKey, GoneRanks> known_;
};

}  // namespace atp
