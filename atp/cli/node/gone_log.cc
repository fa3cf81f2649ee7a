#include "atp/cli/node/gone_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "atp/base/text.h"
#include "atp/cli/node/report.h"

namespace atp {

std::vector<LogLine> FailureLog::lines(const JobFailures& failures) {
  std::vector<LogLine> lines;
  const auto kept = static_cast<std::uint64_t>(std::distance(failures.begin(), failures.end()));
  const std::uint64_t fresh = std::min(failures.added() - logged_, kept);
  for (const JobFailure* one = failures.end() - fresh; one != failures.end(); ++one) {
    lines.push_back(
        {fmt::format("{} has failed: {}", name_of(names_.of(one->job)), failure_text(*one)),
         about(names_.of(one->job), RankSet::of(one->rank))});
  }
  logged_ = failures.added();
  return lines;
}

std::vector<LogLine> GoneLog::lines(const std::vector<JobStatus>& jobs) {
  std::vector<LogLine> lines;
  const auto add_line = [&](const JobName& job, const RankSet& ranks, const char* what) {
    if (ranks.empty()) return;
    lines.push_back(
        {fmt::format("{}: {} {}", name_of(job), ranks_text(ranks), what), about(job, ranks)});
  };
  std::map<JobName, Gone> all;
  for (const JobStatus& job : jobs) {
    Gone& gone = all[name_of_job(job)];
    gone.left |= job.left;
    gone.lost |= job.lost;
  }
  for (const auto& [job, gone] : all) {
    const Gone& old = known_[job];
    add_line(job, gone.left - old.left, "left");
    add_line(job, gone.lost - old.lost, "silent for a lease: lost");
  }
  known_ = std::move(all);
  return lines;
}

}  // namespace atp
