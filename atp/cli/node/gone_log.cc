#include "atp/cli/node/gone_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "atp/base/text.h"
#include "atp/cli/node/report.h"

namespace atp {
namespace {

// Adds to the last entry if it is of the same job: a node lists a job's ranges one after another.
void add(std::vector<GoneRanks>& all, const JobKey& job, const RankSet& left, const RankSet& lost) {
  if (all.empty() || all.back().job != job) all.push_back({job, {}, {}});
  all.back().left |= left;
  all.back().lost |= lost;
}

}  // namespace

std::vector<GoneRanks> gone_ranks_of(const Server& server, Instant now) {
  std::vector<GoneRanks> all;
  server.for_each_job(now,
                      [&](const JobSummary& job) { add(all, job.terms.key, job.left, job.lost); });
  return all;
}

// A switch forgets a rank whose lease has ended.
std::vector<GoneRanks> gone_ranks_of(const SwitchNode& node, Instant) {
  std::vector<GoneRanks> all;
  node.for_each_tree(
      [&](const Tree& tree, const atp_share&) { add(all, tree.job(), tree.left(), {}); });
  return all;
}

std::vector<LogLine> FailureLog::lines(const JobFailures& failures) {
  std::vector<LogLine> lines;
  const auto kept = static_cast<std::uint64_t>(std::distance(failures.begin(), failures.end()));
  const std::uint64_t fresh = std::min(failures.added() - logged_, kept);
  for (const JobFailure* one = failures.end() - fresh; one != failures.end(); ++one) {
    lines.push_back({fmt::format("{} has failed: {}", names_.text(one->job), failure_text(*one)),
                     names_.about(one->job, RankSet::of(one->rank))});
  }
  logged_ = failures.added();
  return lines;
}

std::vector<LogLine> GoneLog::lines(const std::vector<GoneRanks>& now_gone) {
  std::vector<LogLine> lines;
  const auto add_line = [&](const JobKey& job, const RankSet& ranks, const char* what) {
    lines.push_back({fmt::format("{}: {} {}", names_.text(job), ranks_text(ranks), what),
                     names_.about(job, ranks)});
  };
  std::map<JobKey, GoneRanks> known;
  for (const GoneRanks& gone : now_gone) {
    const auto before = known_.find(gone.job);
    const GoneRanks none{gone.job, {}, {}};
    const GoneRanks& old = before == known_.end() ? none : before->second;
    if (const RankSet left = gone.left - old.left; !left.empty()) {
      add_line(gone.job, left, "left");
    }
    if (const RankSet lost = gone.lost - old.lost; !lost.empty()) {
      add_line(gone.job, lost, "silent for a lease: lost");
    }
    known.emplace(gone.job, gone);
  }
  known_ = std::move(known);
  return lines;
}

}  // namespace atp
