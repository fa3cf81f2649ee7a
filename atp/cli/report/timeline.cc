#include "atp/cli/report/timeline.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace atp {
namespace {

std::string event_text(const FlightRecord& record, const FlightRecord::Event& event) {
  const FlightRecord::Group& group = record.groups[event.group];
  if (event.kind == "opened") return "joined group " + group.name;
  if (event.kind == "closed") return "closed group " + group.name;
  if (event.kind == "left") return "left group " + group.name + ": " + event.text;
  if (event.kind == "failure") return "failed: " + event.text;
  return event.text;
}

std::set<std::string> shown_operations(const Story& story) {
  std::set<std::string> shown;
  for (const Diagnosis& finding : story.findings) {
    shown.insert(finding.operation);
    for (const Diagnosis::Part& part : finding.parts) shown.insert(part.operation);
  }
  return shown;
}

}  // namespace

void Timeline::add(const FlightRecord& record, const Story& story) {
  for (const FlightRecord::Event& event : record.events) {
    row(record, event.time, event_text(record, event));
  }
  const std::set<std::string> shown = shown_operations(story);
  for (const FlightRecord::Operation& operation : record.operations) {
    const std::string text = operation_text(operation);
    if (!options_.all_operations && !shown.contains(text)) continue;
    row(record, operation.begun, "began " + text);
    if (operation.completed) row(record, *operation.completed, "completed " + text);
    if (operation.failed) row(record, *operation.failed, "failed in " + text);
  }
  row(record, record.written, "wrote its file: " + record.reason);
}

std::vector<TimelineRow> Timeline::rows() && {
  std::sort(rows_.begin(), rows_.end(), [](const auto& one, const auto& other) {
    return std::tie(one.time, one.rank) < std::tie(other.time, other.rank);
  });
  return std::move(rows_);
}

void Timeline::row(const FlightRecord& record, WallTime time, std::string text) {
  const WallTime corrected = clocks_.corrected(record.host, time);
  if (corrected < begin_) return;
  rows_.push_back({corrected, record.rank, record.host, std::move(text)});
}

}  // namespace atp
