#include "atp/cli/metrics/metrics_text.h"

#include <fmt/core.h>

namespace atp {
namespace {

// Escapes a label's value or, without quotes, a help text.
std::string escaped(std::string_view text, bool in_quotes) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || (in_quotes && c == '"')) result += '\\';
    result += c == '\n' ? "\\n" : std::string(1, c);
  }
  return result;
}

}  // namespace

std::string_view to_string(MetricType type) {
  switch (type) {
    case MetricType::kCounter: return "counter";
    case MetricType::kGauge: return "gauge";
    case MetricType::kSummary: return "summary";
  }
  return "untyped";
}

void MetricsText::begin(std::string_view name, MetricType type, std::string_view help) {
  name_ = name;
  head_ =
      fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, escaped(help, false), to_string(type));
}

void MetricsText::sample(const MetricLabels& labels, double value, std::string_view suffix) {
  text_ += std::exchange(head_, {}) + name_ + std::string(suffix);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    text_ += fmt::format("{}{}=\"{}\"", i == 0 ? "{" : ",", labels[i].first,
                         escaped(labels[i].second, true));
  }
  if (!labels.empty()) text_ += '}';
  text_ += fmt::format(" {}\n", value);
}

}  // namespace atp
