#include "atp/cli/status/finding.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "atp/base/text.h"

namespace atp {

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::kGood: return "good";
    case Severity::kNote: return "note";
    case Severity::kWarning: return "warning";
    case Severity::kBad: return "bad";
  }
  return "";
}

Severity worst_of(const std::vector<Finding>& findings) {
  Severity worst = Severity::kGood;
  for (const Finding& finding : findings) worst = std::max(worst, finding.severity);
  return worst;
}

std::string tenths_text(double seconds) {
  constexpr Duration kTenth = std::chrono::milliseconds(100);
  // Clocks have binary fractions: 4.2 s may be a little less.
  const auto whole =
      std::chrono::round<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
  return seconds_text(whole - whole % kTenth);
}

std::string text_of(const Finding& finding, double now_s) {
  if (!finding.since_s) return finding.text;
  return fmt::format("{}: {} so far", finding.text, tenths_text(now_s - *finding.since_s));
}

LogLine log_line(const Finding& finding, double now_s) {
  LogLine line{.text = text_of(finding, now_s), .about = {}};
  if (finding.job) {
    line.about.job = static_cast<std::uint32_t>(finding.job->job);
    line.about.incarnation = static_cast<std::uint32_t>(finding.job->incarnation);
    line.about.tenant = finding.job->tenant;
  }
  line.about.ranks.assign(finding.ranks.begin(), finding.ranks.end());
  return line;
}

std::string table_row(const Finding& finding) {
  const std::string node = finding.node.empty() ? "this host" : finding.node;
  std::string row = fmt::format("{:<8} {:<15} {:<22} {}\n", to_string(finding.severity),
                                finding.kind, node, finding.text);
  if (!finding.expected.empty()) row += fmt::format("{:<8} expected: {}\n", "", finding.expected);
  if (!finding.fix.empty()) row += fmt::format("{:<8} fix: {}\n", "", finding.fix);
  return row;
}

nlohmann::ordered_json to_json(const Finding& finding) {
  nlohmann::ordered_json json{{"severity", to_string(finding.severity)},
                              {"kind", finding.kind},
                              {"text", finding.text},
                              {"node", finding.node},
                              {"ranks", finding.ranks}};
  if (finding.job) {
    json["job"] = finding.job->job;
    json["incarnation"] = finding.job->incarnation;
    if (!finding.job->tenant.empty()) json["tenant"] = finding.job->tenant;
  }
  if (!finding.expected.empty()) json["expected"] = finding.expected;
  if (!finding.fix.empty()) json["fix"] = finding.fix;
  if (finding.since_s) json["since_s"] = *finding.since_s;
  return json;
}

}  // namespace atp
