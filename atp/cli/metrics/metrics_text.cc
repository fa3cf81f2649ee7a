#include "atp/cli/metrics/metrics_text.h"

#include <fmt/core.h>

#include <iterator>

namespace atp {
namespace {

// Appends a label's value or, without quotes, a help text, escaped.
void append_escaped(std::string_view text, bool in_quotes, std::string& out) {
  for (const char c : text) {
    if (c == '\\' || (in_quotes && c == '"')) out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
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
  head_ = "# HELP ";
  head_.append(name) += ' ';
  append_escaped(help, false, head_);
  head_.append("\n# TYPE ").append(name) += ' ';
  head_.append(to_string(type)) += '\n';
}

void MetricsText::sample(const MetricLabels& labels, double value, std::string_view suffix) {
  text_.append(head_).append(name_).append(suffix);
  head_.clear();
  char before = '{';
  for (const auto& [label, text] : labels) {
    text_ += std::exchange(before, ',');
    text_.append(label).append("=\"");
    append_escaped(text, true, text_);
    text_ += '"';
  }
  if (!labels.empty()) text_ += '}';
  fmt::format_to(std::back_inserter(text_), " {}\n", value);
}

}  // namespace atp
