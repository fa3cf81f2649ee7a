#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "atp/cli/metrics/metrics_text.h"

// What a switch or a server tells Prometheus: its status (docs/status.md) as metrics.

namespace atp {

enum class MetricOf : std::uint8_t { kBoth, kSwitch, kServer };

struct MetricInfo {
  std::string_view name;
  MetricType type = MetricType::kCounter;
  std::string_view help;
  MetricOf of = MetricOf::kBoth;
  std::string_view labels = {};
  // Of the status; "drop_*": all that begin so, and what follows is the label. Empty: it is made of
  // something else.
  std::string_view counter = {};
  double unit = 1;  // of the counter, in the metric's
};

std::span<const MetricInfo> node_metrics();
void begin_metric(std::string_view name, MetricsText& metrics);  // one of these

// A job is one label value for each of its ranks, so there are bounds; what is beyond them is
// counted in atp_metrics_left_out. The latest ranks go first.
inline constexpr std::size_t kMostMetricJobs = 32;
inline constexpr std::size_t kMostMetricRanks = 64;  // of each job

void add_node_metrics(const nlohmann::ordered_json& status, MetricsText& metrics);

// Of this process, under the names that all exporters use: processor time, memory, descriptors.
void add_process_metrics(MetricsText& metrics);

// docs/metrics.md between its marks.
std::string node_metrics_table();

}  // namespace atp
