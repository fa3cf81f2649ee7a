#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The text format in which Prometheus reads metrics, version 0.0.4.
//
// Written here, as Debian has prometheus-cpp as shared libraries only, which bring civetweb, curl
// and OpenSSL, while atp is one file that runs without packages. Prometheus's own parser reads what
// this writes in tests/metrics.

namespace atp {

enum class MetricType : std::uint8_t { kCounter, kGauge, kSummary };
std::string_view to_string(MetricType type);

using MetricLabels = std::vector<std::pair<std::string_view, std::string>>;

class MetricsText {
 public:
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

  // The samples that follow are of it. Of one without samples nothing is written.
  void begin(std::string_view name, MetricType type, std::string_view help);
  // `suffix` behind the name, as summaries have it: "_count".
  void sample(const MetricLabels& labels, double value, std::string_view suffix = {});

  const std::string& text() const { return text_; }

 private:
  std::string name_;
  std::string head_;  // not written yet
  std::string text_;
};

}  // namespace atp
