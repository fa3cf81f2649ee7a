#include "atp/cli/report/report_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "atp/base/text.h"
#include "atp/cli/command/text_table.h"

namespace atp {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::int64_t kSecond = 1'000'000'000;

struct Clock {
  std::string day;   // 2026-11-25
  std::string time;  // 02:16:31.204
};

Clock clock_of(WallTime time) {
  const std::int64_t below = ((time % kSecond) + kSecond) % kSecond;
  const auto seconds = static_cast<std::time_t>((time - below) / kSecond);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char day[32];
  char clock[32];
  std::strftime(day, sizeof day, "%Y-%m-%d", &utc);
  std::strftime(clock, sizeof clock, "%H:%M:%S", &utc);
  return {day, fmt::format("{}.{:03}", clock, below / 1'000'000)};
}

std::string time_text(WallTime time) { return clock_of(time).time; }

// "5.02 s", "12 ms"
std::string length_text(std::int64_t nanoseconds) {
  const double seconds = static_cast<double>(nanoseconds) / 1e9;
  return std::abs(seconds) >= 1 ? fmt::format("{:.2f} s", seconds)
                                : fmt::format("{:.1f} ms", seconds * 1e3);
}

std::string_view verb(const std::vector<std::size_t>& ranks, std::string_view one,
                      std::string_view several) {
  return ranks.size() == 1 ? one : several;
}

std::string upper_first(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') text.front() -= 'a' - 'A';
  return text;
}

std::string parts_table(const Diagnosis& finding) {
  TextTable table({"rank", "operation", "begun", "state", "ended"});
  for (const Diagnosis::Part& part : finding.parts) {
    table.add({std::to_string(part.rank), part.operation.empty() ? "-" : part.operation,
               part.begun ? time_text(*part.begun) : "-", part.state,
               part.ended ? time_text(*part.ended) : "-"});
  }
  return table.text("    ");
}

std::string finding_text(const Diagnosis& finding) {
  std::string text = fmt::format("\n{}\n  group: {}\n", finding.text, finding.group);
  if (!finding.because.empty()) text += "  because: " + finding.because + "\n";
  if (!finding.failure.empty()) {
    text += fmt::format("  first failure: rank {}, {}: {}\n", finding.told_by,
                        finding.until ? time_text(*finding.until) : "-", finding.failure);
  }
  return finding.parts.empty() ? text : text + parts_table(finding);
}

std::string clocks_text(const HostClocks& clocks) {
  std::string text;
  for (const HostClocks::Difference& each : clocks.differences()) {
    if (each.operations < HostClocks::kFewest) {
      text += fmt::format(
          "  {}: too few common operations ({}) to compare its clock with {}'s: not corrected\n",
          each.host, each.operations, clocks.reference());
    } else {
      text +=
          fmt::format("  {}: its clock is {} {} {}'s (median of {} operations): corrected\n",
                      each.host, length_text(std::abs(each.ahead)),
                      each.ahead < 0 ? "behind" : "ahead of", clocks.reference(), each.operations);
    }
  }
  return text.empty() ? text : "\nClocks\n" + text;
}

std::string timeline_text(const Story& story) {
  if (story.timeline.empty()) return "";
  TextTable table({"time", "rank", "host", "what"});
  for (const TimelineRow& row : story.timeline) {
    table.add({time_text(row.time), std::to_string(row.rank), row.host, row.text});
  }
  return "\nIn order of time\n" + table.text();
}

OrderedJson time_json(const std::optional<WallTime>& time) {
  return time ? OrderedJson(*time) : OrderedJson();
}

OrderedJson finding_json(const Diagnosis& finding) {
  OrderedJson parts = OrderedJson::array();
  for (const Diagnosis::Part& part : finding.parts) {
    parts.push_back({{"rank", part.rank},
                     {"operation", part.operation},
                     {"begun_ns", time_json(part.begun)},
                     {"ended_ns", time_json(part.ended)},
                     {"state", part.state}});
  }
  OrderedJson json = to_json(static_cast<const Finding&>(finding));
  json.update({{"evidence", finding.evidence},
               {"group", finding.group},
               {"operation", finding.operation},
               {"waiting", finding.waiting},
               {"since_ns", time_json(finding.since)},
               {"until_ns", time_json(finding.until)},
               {"first_failure", finding.failure.empty() ? OrderedJson()
                                                         : OrderedJson{{"rank", finding.told_by},
                                                                       {"text", finding.failure}}},
               {"parts", std::move(parts)}});
  return json;
}

}  // namespace

std::string headline(const Diagnosis& finding) {
  const std::string who = ranks_text(finding.ranks);
  if (finding.kind == "mismatch") {
    return upper_first(who) + std::string(verb(finding.ranks, " differs", " differ")) +
           " from the others in operation " + finding.operation;
  }
  const std::string where = finding.operation.empty() ? std::string() : " in " + finding.operation;
  if (finding.ranks.empty()) {
    if (!finding.failure.empty()) {
      return "The group failed" + where + ", and the files name no rank";
    }
    return upper_first(ranks_text(finding.waiting)) +
           std::string(verb(finding.waiting, " waits", " wait")) + where;
  }
  std::string text = finding.waiting.empty() ? "The others" : ranks_text(finding.waiting);
  text += " waited for " + who + where;
  if (finding.since && finding.until && *finding.until >= *finding.since) {
    text += " for " + length_text(*finding.until - *finding.since);
  }
  if (finding.since) text += ", since " + time_text(*finding.since);
  return upper_first(text);
}

std::string report_text(const Story& story, const HostClocks& clocks, const RecordFolder& folder) {
  std::string text = fmt::format("job {}: files of {}", story.job, ranks_text(story.ranks));
  if (!story.without_record.empty()) {
    text += fmt::format(", none of {}", ranks_text(story.without_record));
  }
  text += fmt::format(
      "; {}; times are UTC, {}, by the clock of {}\n",
      story.hosts.size() == 1 ? "one host" : std::to_string(story.hosts.size()) + " hosts",
      clock_of(story.end).day, clocks.reference());
  for (const std::string& problem : folder.problems) text += "left out: " + problem + "\n";
  if (story.findings.empty()) {
    text += "\nNo failure, no mismatch, and no rank that others wait for.\n";
  }
  for (const Diagnosis& finding : story.findings) text += finding_text(finding);
  if (!story.lateness.empty()) text += "\nBefore that\n";
  for (const GroupLateness& each : story.lateness) {
    text += fmt::format("  group {}: rank {} began last in {} of {} operations, by {} (median)\n",
                        each.group, each.rank, with_commas(each.last), with_commas(each.operations),
                        length_text(each.median));
  }
  text += clocks_text(clocks);
  text += timeline_text(story);
  return text;
}

std::string report_json(const Story& story, const HostClocks& clocks, const RecordFolder& folder) {
  OrderedJson findings = OrderedJson::array();
  for (const Diagnosis& finding : story.findings) findings.push_back(finding_json(finding));
  OrderedJson lateness = OrderedJson::array();
  for (const GroupLateness& each : story.lateness) {
    lateness.push_back({{"group", each.group},
                        {"rank", each.rank},
                        {"last", each.last},
                        {"operations", each.operations},
                        {"median_ns", each.median}});
  }
  OrderedJson differences = OrderedJson::array();
  for (const auto& each : clocks.differences()) {
    differences.push_back({{"host", each.host},
                           {"ahead_ns", each.ahead},
                           {"operations", each.operations},
                           {"corrected", each.operations >= HostClocks::kFewest}});
  }
  OrderedJson timeline = OrderedJson::array();
  for (const TimelineRow& row : story.timeline) {
    timeline.push_back(
        {{"time_ns", row.time}, {"rank", row.rank}, {"host", row.host}, {"text", row.text}});
  }
  const OrderedJson document{{"job", story.job},
                             {"ranks", story.ranks},
                             {"without_file", story.without_record},
                             {"left_out", folder.problems},
                             {"findings", std::move(findings)},
                             {"lateness", std::move(lateness)},
                             {"clock_of", clocks.reference()},
                             {"clocks", std::move(differences)},
                             {"timeline", std::move(timeline)}};
  return document.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace atp
