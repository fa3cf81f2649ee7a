#include "atp/cli/metrics/node_metrics.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "atp/base/check.h"

namespace atp {
namespace {

using Json = nlohmann::ordered_json;

double number(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() || !at->is_number() ? 0 : at->get<double>();
}

std::string whole(const Json& object, const char* key) {
  return fmt::format("{:.0f}", number(object, key));
}

// Writes one status as metrics.
class Writer {
 public:
  Writer(const Json& status, MetricsText& out)
      : status_(status),
        of_(status.at("role") == "switch" ? MetricOf::kSwitch : MetricOf::kServer),
        out_(out) {
    for (const Json& job : status.at("jobs")) {
      if (jobs_.size() == kMostMetricJobs) {
        ++left_out_;
        continue;
      }
      jobs_.push_back({&job, latest_ranks(job)});
    }
  }

  void write() {
    begin("atp_node_info");
    out_.sample({{"role", status_.at("role")},
                 {"listen", status_.at("listen")},
                 {"version", status_.at("version")}},
                1);
    begin("atp_node_jobs");
    out_.sample({}, static_cast<double>(jobs_known()));
    begin("atp_node_draining");
    out_.sample({}, status_.at("draining").get<bool>() ? 1 : 0);
    begin("atp_metrics_left_out");
    out_.sample({}, left_out_);
    write_ranks();
    write_lateness("atp_job_first_packet_lateness_seconds", "first_p50_us", "first_p99_us");
    write_lateness("atp_job_last_packet_lateness_seconds", "last_p50_us", "last_p99_us");
    of_ == MetricOf::kSwitch ? write_switch_jobs() : write_server_jobs();
    for (const MetricInfo& info : node_metrics()) {
      if (!info.counter.empty() && is_of(info)) write_counter(info);
    }
  }

 private:
  struct Job {
    const Json* status;
    std::vector<const Json*> ranks;  // those whose lateness is reported
  };

  // A job may have several stream ranges.
  std::size_t jobs_known() const {
    std::set<std::tuple<std::uint64_t, std::string, std::uint64_t>> jobs;
    for (const Json& job : status_.at("jobs")) {
      jobs.emplace(job.at("job").get<std::uint64_t>(), job.value("tenant", ""),
                   job.at("incarnation").get<std::uint64_t>());
    }
    return jobs.size();
  }

  bool is_of(const MetricInfo& info) const { return info.of == MetricOf::kBoth || info.of == of_; }

  std::vector<const Json*> latest_ranks(const Json& job) {
    std::vector<const Json*> ranks;
    for (const Json& rank : job.at("lateness")) ranks.push_back(&rank);
    std::sort(ranks.begin(), ranks.end(), [](const Json* one, const Json* other) {
      const auto late = [](const Json* rank) {
        return std::max(number(*rank, "first_p99_us"), number(*rank, "last_p99_us"));
      };
      // Ties go to the lower rank, as in the array.
      return std::pair(-late(one), one) < std::pair(-late(other), other);
    });
    if (ranks.size() > kMostMetricRanks) {
      left_out_ += static_cast<double>(ranks.size() - kMostMetricRanks);
      ranks.resize(kMostMetricRanks);
    }
    return ranks;
  }

  void begin(std::string_view name) { begin_metric(name, out_); }

  static MetricLabels labels_of(const Job& job) {
    MetricLabels labels{{"job_id", whole(*job.status, "job")},
                        {"incarnation", whole(*job.status, "incarnation")},
                        {"first_stream", whole(*job.status, "first_stream")}};
    // On a node with keys, since two tenants may use the same number.
    const auto tenant = job.status->find("tenant");
    if (tenant != job.status->end()) labels.emplace_back("tenant", tenant->get<std::string>());
    return labels;
  }
  static MetricLabels labels_of(const Job& job, std::string_view name, std::string value) {
    MetricLabels labels = labels_of(job);
    labels.emplace_back(name, std::move(value));
    return labels;
  }

  void write_ranks() {
    begin("atp_job_ranks");
    for (const Job& job : jobs_) {
      for (const char* state : {"joined", "missing", "detached", "lost", "left"}) {
        const auto ranks = job.status->find(state);
        if (ranks == job.status->end()) continue;
        out_.sample(labels_of(job, "state", state), static_cast<double>(ranks->size()));
      }
    }
    begin("atp_job_stuck_seconds");
    for (const Job& job : jobs_) {
      const Json& stuck = job.status->at("stuck");
      if (stuck.is_null()) continue;
      const Json& ranks = stuck.at("ranks");
      for (std::size_t i = 0; i < std::min(ranks.size(), kMostMetricRanks); ++i) {
        out_.sample(labels_of(job, "rank", whole(ranks[i], "rank")), number(stuck, "waited_s"));
      }
    }
  }

  void write_lateness(const char* name, const char* half, const char* most) {
    constexpr double kMicrosecond = 1e-6;
    begin(name);
    for (const Job& job : jobs_) {
      for (const Json* rank : job.ranks) {
        const MetricLabels labels = labels_of(job, "rank", whole(*rank, "rank"));
        for (const auto& [quantile, key] : {std::pair{"0.5", half}, std::pair{"0.99", most}}) {
          MetricLabels with_quantile = labels;
          with_quantile.emplace_back("quantile", quantile);
          out_.sample(with_quantile, number(*rank, key) * kMicrosecond);
        }
      }
    }
  }

  void write_of_jobs(const char* name, const char* key, const char* under = nullptr) {
    begin(name);
    for (const Job& job : jobs_) {
      const Json& object = under == nullptr ? *job.status : job.status->at(under);
      out_.sample(labels_of(job), number(object, key));
    }
  }

  void write_server_jobs() {
    write_of_jobs("atp_job_fragments_total", "fragments");
    write_of_jobs("atp_job_fragments_as_floats_total", "fragments_as_floats");
    write_of_jobs("atp_job_fragments_summed_in_switches_total", "fragments_summed_in_switches");
  }

  void write_switch_jobs() {
    write_of_jobs("atp_job_aggregators", "held", "aggregators");
    write_of_jobs("atp_job_aggregators_region", "size", "aggregators");
    write_of_jobs("atp_job_aggregators_part", "part", "aggregators");
    write_of_jobs("atp_job_aggregators_gain_ratio", "gain", "aggregators");
    write_of_jobs("atp_job_gradients_total", "gradients", "aggregators");
    write_of_jobs("atp_job_gradients_collided_total", "collided", "aggregators");
    begin("atp_switch_aggregators");
    out_.sample({}, number(status_.at("aggregators"), "total"));
    begin("atp_switch_aggregators_enough");
    out_.sample({}, number(status_.at("aggregators"), "enough"));
  }

  void write_counter(const MetricInfo& info) {
    const Json& counters = status_.at("counters");
    out_.begin(info.name, info.type, info.help);
    if (!info.counter.ends_with('*')) {
      const auto at = counters.find(std::string(info.counter));
      if (at != counters.end()) out_.sample({}, at->get<double>() * info.unit);
      return;
    }
    const std::string_view prefix = info.counter.substr(0, info.counter.size() - 1);
    for (const auto& [name, value] : counters.items()) {
      if (!name.starts_with(prefix) || has_own_metric(name)) continue;
      out_.sample({{info.labels, name.substr(prefix.size())}}, value.get<double>());
    }
  }

  bool has_own_metric(std::string_view counter) const {
    const auto all = node_metrics();
    return std::any_of(all.begin(), all.end(), [&](const MetricInfo& info) {
      return info.counter == counter && is_of(info);
    });
  }

  const Json& status_;
  MetricOf of_;
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

void add_node_metrics(const Json& status, MetricsText& metrics) { Writer(status, metrics).write(); }

std::string node_metrics_table() {
  std::string text = "| metric | node | type | labels | meaning |\n|---|---|---|---|---|\n";
  for (const MetricInfo& info : node_metrics()) {
    text += fmt::format(
        "| `{}` | {} | {} | {} | {} |\n", info.name, text_of(info.of), to_string(info.type),
        info.labels.empty() ? std::string() : fmt::format("`{}`", info.labels), info.help);
  }
  return text;
}

}  // namespace atp
