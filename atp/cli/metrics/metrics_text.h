#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Prometheus's text format for metrics, version 0.0.4.
//
// We write it ourselves: Debian has prometheus-cpp only as shared libraries, which pull in
// civetweb, curl and OpenSSL, while atp is a single file that needs no packages.
// tests/e2e/test_metrics.py checks the output with Prometheus's own parser.

namespace atp {

enum class MetricType : std::uint8_t { kCounter, kGauge, kSummary };
std::string_view to_string(MetricType type);

using MetricLabels = std::vector<std::pair<std::string_view, std::string>>;

class MetricsText {
 public:
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

  // Starts a metric, to which the samples that follow belong. One without samples is left out.
  void begin(std::string_view name, MetricType type, std::string_view help);
  // `suffix` is appended to the name, for summaries: "_count".
  void sample(const MetricLabels& labels, double value, std::string_view suffix = {});

  const std::string& text() const { return text_; }

 private:
  std::string name_;
  std::string head_;  // pending until the first sample
  std::string text_;
};

}  // namespace atp
