#pragma once

#include <span>
#include <string>
#include <string_view>

#include "atp/cli/metrics/metrics_text.h"
#include "atp/cli/status/node_status.h"

// The status of a switch or server (docs/operate/status.md) as metrics for Prometheus.

namespace atp {

enum class MetricOf : std::uint8_t { kBoth, kSwitch, kServer };

struct MetricInfo {
  std::string_view name;
  MetricType type = MetricType::kCounter;
  std::string_view help;
  MetricOf of = MetricOf::kBoth;
  std::string_view labels = {};
  // The counter in the status. "drop_*" stands for all with that prefix; the rest of the name
  // becomes the label. Empty: not made from a counter.
  std::string_view counter = {};
  double unit = 1;  // the counter's unit in units of the metric
};

std::span<const MetricInfo> node_metrics();
void begin_metric(std::string_view name, MetricsText& metrics);  // `name` must be in the list

// Each rank of a job is a label value, so their number is limited. atp_metrics_left_out counts what
// is left out; the ranks that are latest are kept.
inline constexpr std::size_t kMostMetricJobs = 32;
inline constexpr std::size_t kMostMetricRanks = 64;  // per job

void add_node_metrics(const NodeStatus& status, MetricsText& metrics);

// This process's processor time, memory and descriptors, under the names that all exporters use.
void add_process_metrics(MetricsText& metrics);

// The table in docs/operate/metrics.md, between its markers.
std::string node_metrics_table();

}  // namespace atp
