#include "atp/cli/metrics/node_metrics.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "atp/base/check.h"

namespace atp {
namespace {

// Writes one status as metrics.
class Writer {
 public:
  Writer(const NodeStatus& status, MetricsText& out) : status_(status), out_(out) {
    for (const JobStatus& job : status.jobs) {
      if (jobs_.size() == kMostMetricJobs) {
        ++left_out_;
        continue;
      }
      jobs_.push_back({job, latest_ranks(job)});
    }
  }

  void write() {
    write_one("atp_node_info", 1,
              {{"role", status_.role}, {"listen", status_.listen}, {"version", status_.version}});
    write_one("atp_node_jobs", static_cast<double>(jobs_in(status_.jobs)));
    write_one("atp_node_draining", status_.draining ? 1 : 0);
    write_one("atp_metrics_left_out", left_out_);
    write_ranks();
    write_lateness("atp_job_first_packet_lateness_seconds", &RankDelay::first_p50_us,
                   &RankDelay::first_p99_us);
    write_lateness("atp_job_last_packet_lateness_seconds", &RankDelay::last_p50_us,
                   &RankDelay::last_p99_us);
    status_.is_switch() ? write_switch_jobs() : write_server_jobs();
    for (const MetricInfo& info : node_metrics()) {
      if (!info.counter.empty() && is_of(info)) write_counter(info);
    }
  }

 private:
  struct Job {
    const JobStatus& status;
    std::vector<RankDelay> ranks;  // those whose lateness is reported
  };

  bool is_of(const MetricInfo& info) const {
    return info.of == MetricOf::kBoth || (info.of == MetricOf::kSwitch) == status_.is_switch();
  }

  std::vector<RankDelay> latest_ranks(const JobStatus& job) {
    std::vector<RankDelay> ranks = job.lateness;
    // The latest first, and of equally late ones the lower ranks.
    const auto key = [](const RankDelay& rank) {
      return std::pair(~std::max(rank.first_p99_us, rank.last_p99_us), rank.rank);
    };
    std::sort(ranks.begin(), ranks.end(),
              [&](const RankDelay& one, const RankDelay& other) { return key(one) < key(other); });
    if (ranks.size() > kMostMetricRanks) {
      left_out_ += static_cast<double>(ranks.size() - kMostMetricRanks);
      ranks.resize(kMostMetricRanks);
    }
    return ranks;
  }

  void begin(std::string_view name) { begin_metric(name, out_); }
  void write_one(std::string_view name, double value, const MetricLabels& labels = {}) {
    begin(name);
    out_.sample(labels, value);
  }

  static MetricLabels labels_of(const JobStatus& job, const MetricLabels& more = {}) {
    MetricLabels labels{{"job_id", std::to_string(job.job)},
                        {"incarnation", std::to_string(job.incarnation)},
                        {"first_stream", std::to_string(job.first_stream)}};
    // On a node with keys, since two tenants may use the same number.
    if (!job.tenant.empty()) labels.emplace_back("tenant", job.tenant);
    labels.insert(labels.end(), more.begin(), more.end());
    return labels;
  }

  void write_ranks() {
    begin("atp_job_ranks");
    for (const auto& [job, ranks] : jobs_) {
      const auto write = [&](const char* state, const RankSet& of) {
        out_.sample(labels_of(job, {{"state", state}}), static_cast<double>(of.size()));
      };
      write("joined", job.joined);
      if (!status_.is_switch()) write("missing", job.missing);
      write("detached", job.detached);
      if (!status_.is_switch()) write("lost", job.lost);
      write("left", job.left);
    }
    begin("atp_job_stuck_seconds");
    for (const auto& [job, ranks] : jobs_) {
      if (!job.stuck) continue;
      for (std::size_t i = 0; i < std::min(job.stuck->ranks.size(), kMostMetricRanks); ++i) {
        const std::string rank = std::to_string(job.stuck->ranks[i].rank);
        out_.sample(labels_of(job, {{"rank", rank}}), job.stuck->waited_s);
      }
    }
  }

  using Microseconds = std::uint64_t RankDelay::*;
  void write_lateness(const char* name, Microseconds half, Microseconds most) {
    constexpr double kMicrosecond = 1e-6;
    begin(name);
    for (const auto& [job, ranks] : jobs_) {
      for (const RankDelay& rank : ranks) {
        for (const auto& [quantile, us] : {std::pair{"0.5", half}, std::pair{"0.99", most}}) {
          out_.sample(labels_of(job, {{"rank", std::to_string(rank.rank)}, {"quantile", quantile}}),
                      static_cast<double>(rank.*us) * kMicrosecond);
        }
      }
    }
  }

  template <auto... kMembers>  // that lead to the number
  void write_of_jobs(const char* name) {
    begin(name);
    for (const auto& [job, ranks] : jobs_) {
      out_.sample(labels_of(job), static_cast<double>((job.*....*kMembers)));
    }
  }

  void write_server_jobs() {
    write_of_jobs<&JobStatus::fragments>("atp_job_fragments_total");
    write_of_jobs<&JobStatus::fragments_as_floats>("atp_job_fragments_as_floats_total");
    write_of_jobs<&JobStatus::fragments_summed_in_switches>(
        "atp_job_fragments_summed_in_switches_total");
  }

  void write_switch_jobs() {
    constexpr auto kHas = &JobStatus::aggregators;
    write_of_jobs<kHas, &JobAggregators::held>("atp_job_aggregators");
    write_of_jobs<kHas, &JobAggregators::size>("atp_job_aggregators_region");
    write_of_jobs<kHas, &JobAggregators::part>("atp_job_aggregators_part");
    write_of_jobs<kHas, &JobAggregators::gain>("atp_job_aggregators_gain_ratio");
    write_of_jobs<kHas, &JobAggregators::gradients>("atp_job_gradients_total");
    write_of_jobs<kHas, &JobAggregators::collided>("atp_job_gradients_collided_total");
    write_one("atp_switch_aggregators", static_cast<double>(status_.aggregators.total));
    write_one("atp_switch_aggregators_enough", static_cast<double>(status_.aggregators.enough));
  }

  void write_counter(const MetricInfo& info) {
    out_.begin(info.name, info.type, info.help);
    const bool is_prefix = info.counter.ends_with('*');
    const std::string_view wanted = info.counter.substr(0, info.counter.size() - is_prefix);
    for (const auto& [name, value] : status_.counters) {
      const auto number = static_cast<double>(value);
      if (!is_prefix && name == wanted) out_.sample({}, number * info.unit);
      if (!is_prefix || !name.starts_with(wanted) || has_own_metric(name)) continue;
      out_.sample({{info.labels, name.substr(wanted.size())}}, number);
    }
  }

  bool has_own_metric(std::string_view counter) const {
    const auto all = node_metrics();
    return std::any_of(all.begin(), all.end(), [&](const MetricInfo& info) {
      return info.counter == counter && is_of(info);
    });
  }

  const NodeStatus& status_;
  MetricsText& out_;
  std::vector<Job> jobs_;
  double left_out_ = 0;
};

std::string_view text_of(MetricOf of) {
  switch (of) {
    case MetricOf::kBoth: return "both";
    case MetricOf::kSwitch: return "switch";
    case MetricOf::kServer: return "server";
  }
  return "";
}

}  // namespace

void begin_metric(std::string_view name, MetricsText& metrics) {
  const auto all = node_metrics();
  const auto info =
      std::find_if(all.begin(), all.end(), [&](const MetricInfo& one) { return one.name == name; });
  ATP_CHECK(info != all.end());
  metrics.begin(info->name, info->type, info->help);
}

void add_node_metrics(const NodeStatus& status, MetricsText& metrics) {
  Writer(status, metrics).write();
}

std::string node_metrics_table() {
  std::string text = "| metric | node | labels | meaning |\n|---|---|---|---|\n";
  for (const MetricInfo& info : node_metrics()) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", info.name, text_of(info.of),
                        info.labels.empty() ? std::string() : fmt::format("`{}`", info.labels),
                        info.help);
  }
  return text;
}

}  // namespace atp
