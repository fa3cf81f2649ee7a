#pragma once

#include <map>
#include <vector>

#include "atp/cli/command/log.h"
#include "atp/cli/node/node_keys.h"
#include "atp/cli/status/node_status.h"
#include "atp/core/server/server.h"

// The log lines of a switch or server about ranks that are gone while their job goes on: those that
// left, and, at a server, those that were silent for a lease. Counters only say how many.

namespace atp {

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
  // The lines for the ranks that have gone since the last call. Other jobs than these are
  // forgotten.
  std::vector<LogLine> lines(const std::vector<JobStatus>& jobs);

 private:
  struct Gone {
    RankSet left;
    RankSet lost;
  };
  std::map<JobName, Gone> known_;
};

}  // namespace atp
