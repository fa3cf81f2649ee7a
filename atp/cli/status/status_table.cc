#include "atp/cli/status/status_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "atp/base/text.h"
#include "atp/cli/command/text_table.h"
#include "atp/cli/status/job_findings.h"
#include "atp/cli/status/scarcity.h"

namespace atp {
namespace {

// Of a job, or of all jobs of a server.
template <class Sums>
std::string share(const Sums& of) {
  // Float sums bypass the switches, and without a switch on any route there is no share.
  const std::uint64_t all = of.fragments - std::min(of.fragments, of.fragments_as_floats);
  if (all == 0 || !of.has_switches) return "-";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(of.fragments_summed_in_switches) /
                                     static_cast<double>(all));
}

std::string streams(const JobStatus& job) {
  return job.streams <= 1
             ? fmt::format("{}", job.first_stream)
             : fmt::format("{}-{}", job.first_stream, job.first_stream + job.streams - 1);
}

// "rank 3 missing, ranks 0 and 1 left".
std::string absentees(const JobStatus& job) {
  std::string text;
  const auto add = [&](const RankSet& ranks, const char* word) {
    if (ranks.empty()) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", ranks_text(ranks), word);
  };
  add(job.missing, "missing");
  add(job.detached, "detached");
  add(job.waited_for, "straggling");
  add(job.lost, "lost");
  add(job.left, "left");
  return text.empty() ? "-" : text;
}

std::string workers(const JobStatus& job) {
  return fmt::format("{} of {}", job.joined.size(), job.world_size);
}

// A table of jobs, with a column for their tenants if the node has keys.
class JobTable {
 public:
  JobTable(const std::vector<JobStatus>& jobs, std::vector<std::string> header)
      : has_tenants_(std::any_of(jobs.begin(), jobs.end(),
                                 [](const JobStatus& job) { return !job.tenant.empty(); })),
        table_(with_tenant(std::move(header), "tenant")) {}

  // `cells`: those after the incarnation.
  void add(const JobStatus& job, std::vector<std::string> cells) {
    cells.insert(cells.begin(), {fmt::format("{}", job.job), fmt::format("{}", job.incarnation)});
    table_.add(with_tenant(std::move(cells), job.tenant.empty() ? "-" : job.tenant));
  }
  std::string text() const { return table_.empty() ? "  no jobs\n" : table_.text(); }

 private:
  std::vector<std::string> with_tenant(std::vector<std::string> cells, std::string tenant) const {
    if (has_tenants_) cells.insert(cells.begin() + 2, std::move(tenant));
    return cells;
  }

  const bool has_tenants_;
  TextTable table_;
};

// "  job 7 waits for rank 2 (10.0.1.2) in all_reduce #17 (1,000 values): 3.2 s so far", one line
// per waiting job.
std::string stuck_lines(const NodeStatus& status) {
  std::string text;
  for (const Finding& finding : findings_of(status.jobs, {}, 0)) {
    if (finding.kind == "stuck") text += fmt::format("  {}\n", text_of(finding, 0));
  }
  return text;
}

std::string milliseconds(std::uint64_t us) {
  return fmt::format("{:.1f} ms", static_cast<double>(us) / 1000);
}

// "  job 7: straggler rank 2: its first packets are late by 40.1 ms (p99 81.0 ms), …", one line per
// job with a straggler.
std::string lateness_lines(const NodeStatus& status) {
  constexpr std::uint64_t kWorthALineUs = 1000;
  std::string text;
  for (const JobStatus& job : status.jobs) {
    const auto latest = std::max_element(job.lateness.begin(), job.lateness.end(),
                                         [](const RankDelay& one, const RankDelay& other) {
                                           return one.typical_us() < other.typical_us();
                                         });
    if (latest == job.lateness.end() || latest->typical_us() < kWorthALineUs) continue;
    text += fmt::format(
        "  {}: straggler rank {}: its first packets are late by {} (p99 {}), its last by {} (p99 "
        "{})\n",
        name_of(job), latest->rank, milliseconds(latest->first_p50_us),
        milliseconds(latest->first_p99_us), milliseconds(latest->last_p50_us),
        milliseconds(latest->last_p99_us));
  }
  return text;
}

// "  job 7 failed 3.2 s ago: rank 1 (10.0.1.1) left: …", for the last ten minutes.
std::string failure_lines(const NodeStatus& status) {
  constexpr double kWorthALineS = 600;
  std::string text;
  for (const FailedJob& one : status.failures) {
    if (one.ago_s > kWorthALineS) continue;
    text += fmt::format("  {} failed {:.1f} s ago: {}\n", name_of(one), one.ago_s, one.why);
  }
  return text;
}

std::string server_text(const NodeStatus& status) {
  JobTable table(status.jobs, {"job", "incarnation", "streams", "state", "workers", "fragments",
                               "in switches", "remarks"});
  for (const JobStatus& job : status.jobs) {
    table.add(job, {streams(job), job.state, workers(job), with_commas(job.fragments), share(job),
                    absentees(job)});
  }
  const std::string in_switches = share(status);
  return fmt::format(
             "  {} fragments complete, {} as floats{}\n", with_commas(status.fragments),
             with_commas(status.fragments_as_floats),
             in_switches == "-" ? "" : "; " + in_switches + " of the others summed in switches") +
         table.text() + failure_lines(status) + stuck_lines(status) + lateness_lines(status);
}

void add(const JobStatus& job, Wanted& wanted) {
  wanted.add(static_cast<double>(job.aggregators.gradients),
             static_cast<double>(job.aggregators.collided));
}

// "12,288 (weight 3)"
std::string part(const JobAggregators& of) {
  if (of.weight == 0) return "-";
  return with_commas(of.part) + (of.weight == 1 ? "" : fmt::format(" (weight {})", of.weight));
}

std::string collided(const JobStatus& job) {
  Wanted wanted;
  add(job, wanted);
  return wanted.gradients > 0 ? fmt::format("{:.1f} %", 100 * wanted.share()) : "-";
}

// "; with 32,768 (now 16,384): at most 21 % faster"; empty if the job would gain nothing, or the
// node's release does not say.
std::string gain(const SwitchAggregators& all, const JobStatus& job) {
  if (job.aggregators.gain <= 0) return "";
  return fmt::format("; with {} (now {}): at most {:.0f} % faster", with_commas(all.enough),
                     with_commas(all.total), 100 * job.aggregators.gain);
}

// "  aggregators are scarce: 3.0 % of the gradients of job 7 found none; with …", one line per job,
// whatever its stream ranges.
std::string scarcity_lines(const NodeStatus& status) {
  constexpr double kWorthALine = 0.01;
  std::map<std::string, Wanted> of_jobs;
  for (const JobStatus& job : status.jobs) add(job, of_jobs[name_of(job)]);
  std::string text;
  for (const JobStatus& job : status.jobs) {
    const auto found = of_jobs.find(name_of(job));
    if (found == of_jobs.end()) continue;
    if (found->second.share() > kWorthALine) {
      text +=
          fmt::format("  aggregators are scarce: {:.1f} % of the gradients of {} found none{}\n",
                      100 * found->second.share(), found->first, gain(status.aggregators, job));
    }
    of_jobs.erase(found);
  }
  return text;
}

std::string switch_text(const NodeStatus& status) {
  JobTable table(status.jobs, {"job", "incarnation", "streams", "workers here", "aggregators held",
                               "part", "collided", "parent", "remarks"});
  for (const JobStatus& job : status.jobs) {
    table.add(job, {streams(job), workers(job), with_commas(job.aggregators.held),
                    part(job.aggregators), collided(job), job.parent, absentees(job)});
  }
  return fmt::format("  {} of {} aggregators held; {} sums completed, {} gradients collided\n",
                     with_commas(status.aggregators.held), with_commas(status.aggregators.total),
                     with_commas(status.sums_completed), with_commas(status.collisions)) +
         table.text() + scarcity_lines(status) + stuck_lines(status) + lateness_lines(status);
}

std::string drops_text(const NodeStatus& status) {
  std::string text;
  for (const auto& [reason, count] : status.drops) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", reason, with_commas(count));
  }
  return fmt::format("  dropped: {}\n", text.empty() ? "nothing" : text);
}

}  // namespace

std::string drain_text(std::size_t jobs) {
  if (jobs == 0) return "draining, no jobs left";
  return fmt::format("draining, {} job{} left", with_commas(jobs), jobs == 1 ? "" : "s");
}

std::string status_table(const NodeStatus& status) {
  return fmt::format("{} {} (atp {})\n", status.role, status.listen, status.version) +
         (status.draining ? fmt::format("  {}\n", drain_text(jobs_in(status.jobs)))
                          : std::string()) +
         (status.role == "server" ? server_text(status) : switch_text(status)) + drops_text(status);
}

}  // namespace atp
