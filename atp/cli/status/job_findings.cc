#include "atp/cli/status/job_findings.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "atp/base/text.h"

namespace atp {
namespace {

// How long ranks may have been waited for before they are named without the operation, which the
// ranks describe only once the server has told them that it waits.
constexpr double kPatienceSeconds = 1.5;

// "rank 2 (10.0.1.2)", "ranks 2 (10.0.1.2), 5".
std::string hosts_text(const std::vector<StuckRank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i) {
    const auto& [rank, host] = ranks[i];
    text += fmt::format("{}{}{}", i == 0 ? "" : ", ", rank, host.empty() ? "" : " (" + host + ")");
  }
  if (ranks.size() > kMostNamed) text += fmt::format(" and {} others", ranks.size() - kMostNamed);
  return text;
}

void add(const JobStatus& range, JobFacts& job) {
  job.left |= range.left;
  job.lost |= range.lost;
  if (!range.stuck) return;
  job.stuck.insert(job.stuck.end(), range.stuck->ranks.begin(), range.stuck->ranks.end());
  job.waited_s = std::max(job.waited_s, range.stuck->waited_s);
  if (job.waits_in.empty()) job.waits_in = range.stuck->operation;
}

std::optional<Finding> stuck_finding(const JobFacts& job, double now_s) {
  const bool is_early = job.waits_in.empty() && job.waited_s < kPatienceSeconds;
  if (job.stuck.empty() || is_early) return std::nullopt;
  const std::string whom =
      hosts_text(job.stuck) + (job.waits_in.empty() ? "" : " in " + job.waits_in);
  Finding finding{.severity = Severity::kBad,
                  .kind = "stuck",
                  .node = "",
                  .job = job.name,
                  .text = fmt::format("{} waits for {}", name_of(job.name), whom),
                  .over = fmt::format("{} no longer waits for {}", name_of(job.name), whom),
                  .since_s = now_s - job.waited_s};
  for (const StuckRank& one : job.stuck) finding.ranks.push_back(one.rank);
  return finding;
}

}  // namespace

std::vector<Finding> findings_of(const JobFacts& job, double now_s) {
  std::vector<Finding> findings;
  const std::string name = name_of(job.name);
  const auto add = [&](const char* kind, Severity severity, const RankSet& ranks,
                       const std::string& text, const std::string& over = "") {
    if (ranks.empty()) return;
    Finding finding{.severity = severity, .kind = kind, .node = "", .job = job.name};
    ranks.for_each([&](Rank rank) { finding.ranks.push_back(rank); });
    finding.text = text;
    finding.over = over;
    findings.push_back(std::move(finding));
  };
  if (auto stuck = stuck_finding(job, now_s)) findings.push_back(std::move(*stuck));
  add("lost", Severity::kBad, job.lost,
      fmt::format("{}: {} silent for a lease: lost", name, ranks_text(job.lost)));
  add("missing", Severity::kWarning, job.missing,
      fmt::format("{} waits for {} to join", name, ranks_text(job.missing)));
  add("detached", Severity::kWarning, job.detached,
      fmt::format("{}: {} left the switch and send{} straight to the server", name,
                  ranks_text(job.detached), job.detached.size() == 1 ? "s" : ""),
      name + ": all ranks send through their switches again");
  add("left", Severity::kNote, job.left, fmt::format("{}: {} left", name, ranks_text(job.left)));
  return findings;
}

std::vector<Finding> findings_of(const std::vector<JobStatus>& ranges,
                                 const std::vector<FailedJob>& failures, double now_s) {
  std::map<JobName, JobFacts> jobs;
  for (const JobStatus& range : ranges) add(range, jobs[name_of_job(range)]);
  std::vector<Finding> findings;
  for (auto& [name, job] : jobs) {
    job.name = name;
    std::ranges::sort(job.stuck, {}, &StuckRank::rank);
    const auto repeated = std::ranges::unique(job.stuck, {}, &StuckRank::rank);
    job.stuck.erase(repeated.begin(), repeated.end());
    for (Finding& finding : findings_of(job, now_s)) findings.push_back(std::move(finding));
  }
  for (const FailedJob& failure : failures) findings.push_back(finding_of(failure));
  return findings;
}

Finding finding_of(const FailedJob& failure) {
  return {.severity = Severity::kBad,
          .kind = "failed",
          .node = "",
          .job = name_of_job(failure),
          .ranks = {failure.rank},
          .text = fmt::format("{} has failed: {}", name_of(failure), failure.why)};
}

}  // namespace atp
