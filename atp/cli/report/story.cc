// Tells one story from all records: the findings of each group, and the timeline around them.
#include "atp/cli/report/story.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "atp/base/text.h"
#include "atp/cli/report/group_story.h"
#include "atp/cli/report/report_text.h"
#include "atp/cli/report/timeline.h"

namespace atp {
namespace {

using Operation = FlightRecord::Operation;
using Ranks = std::vector<std::size_t>;

WallTime end_of(const std::vector<FlightRecord>& records, const HostClocks& clocks) {
  std::optional<WallTime> failure;
  WallTime written = INT64_MIN;
  for (const FlightRecord& record : records) {
    written = std::max(written, clocks.corrected(record.host, record.written));
    for (const FlightRecord::Event& event : record.events) {
      if (event.kind != "failure") continue;
      const WallTime time = clocks.corrected(record.host, event.time);
      failure = failure ? std::min(*failure, time) : time;
    }
  }
  return failure.value_or(written);
}

}  // namespace

std::string operation_text(const Operation& operation) {
  std::string text = operation.name + " #" + std::to_string(operation.number);
  if (!operation.sizes.empty()) {
    text += " of " + operation.sizes + (operation.type.empty() ? "" : " " + operation.type);
  }
  if (operation.tag != 0) text += ", tag " + std::to_string(operation.tag);
  return text;
}

Ranks ranks_named_in(const std::string& text) {
  std::set<std::size_t> named;
  for (std::size_t at = text.find("rank"); at != std::string::npos; at = text.find("rank", at)) {
    at += 4;
    if (at < text.size() && text[at] == 's') ++at;
    std::optional<std::size_t> before;  // of a range
    for (bool is_range = false;;) {
      if (at >= text.size() || text[at] != ' ') break;
      std::size_t number = 0;
      const auto [end, error] =
          std::from_chars(text.data() + at + 1, text.data() + text.size(), number);
      if (error != std::errc()) break;
      at = static_cast<std::size_t>(end - text.data());
      constexpr std::size_t kMostInRange = 10'000;
      for (std::size_t rank = is_range ? *before : number;
           rank <= number && named.size() < kMostInRange; ++rank) {
        named.insert(rank);
      }
      before = number;
      is_range = text.compare(at, 4, " to ") == 0;
      if (is_range) {
        at += 3;
      } else if (text.compare(at, 2, ", ") == 0) {
        at += 1;
      } else if (text.compare(at, 5, " and ") == 0) {
        at += 4;
      } else {
        break;
      }
    }
  }
  return {named.begin(), named.end()};
}

Status check_one_job(const std::vector<FlightRecord>& records) {
  // Ranks of one job share a group.
  std::vector<std::set<std::string>> keys;
  std::vector<Ranks> jobs;
  std::vector<std::string> names;
  for (const FlightRecord& record : records) {
    std::set<std::string> own;
    for (const auto& group : record.groups) own.insert(group.key());
    Ranks ranks{record.rank};
    std::string name = record.groups.empty() ? "unknown" : record.groups.front().job;
    for (std::size_t i = keys.size(); i-- > 0;) {
      const bool shares = std::any_of(own.begin(), own.end(),
                                      [&](const auto& key) { return keys[i].contains(key); });
      if (!shares) continue;
      own.insert(keys[i].begin(), keys[i].end());
      ranks.insert(ranks.begin(), jobs[i].begin(), jobs[i].end());
      name = names[i];
      const auto place = static_cast<std::ptrdiff_t>(i);
      keys.erase(keys.begin() + place);
      jobs.erase(jobs.begin() + place);
      names.erase(names.begin() + place);
    }
    keys.push_back(std::move(own));
    jobs.push_back(std::move(ranks));
    names.push_back(std::move(name));
  }
  if (jobs.size() > 1) {
    std::string text = "the files belong to different jobs, or to different starts of one:";
    std::vector<std::pair<Ranks, std::string>> sorted;
    sorted.reserve(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) sorted.emplace_back(jobs[i], names[i]);
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      text += (i > 0 ? "; " : " ") + ranks_text(sorted[i].first) + " of job " + sorted[i].second;
    }
    return Error{text + ": move those of other jobs to another folder, or name the files of one"};
  }
  std::map<std::size_t, std::string> files;
  for (const FlightRecord& record : records) {
    const auto [at, is_new] = files.emplace(record.rank, record.file);
    if (!is_new) {
      return Error{"two files belong to rank " + std::to_string(record.rank) + ": " + at->second +
                   " and " + record.file + ": name one of them"};
    }
  }
  return ok_status();
}

Story tell_story(const std::vector<FlightRecord>& records, const HostClocks& clocks,
                 const StoryOptions& options) {
  Story story;
  std::set<std::size_t> all;
  std::set<std::size_t> recorded;
  for (const FlightRecord& record : records) {
    recorded.insert(record.rank);
    story.ranks.push_back(record.rank);
    if (std::find(story.hosts.begin(), story.hosts.end(), record.host) == story.hosts.end()) {
      story.hosts.push_back(record.host);
    }
    for (const auto& group : record.groups) all.insert(group.ranks.begin(), group.ranks.end());
  }
  std::set_difference(all.begin(), all.end(), recorded.begin(), recorded.end(),
                      std::back_inserter(story.without_record));
  const auto groups = members_of_groups(records);
  if (!groups.empty()) story.job = groups.front().front().group->job;
  for (const auto& members : groups) {
    GroupStory group(members, clocks, story.ranks);
    if (auto finding = group.finding()) {
      finding->text = headline(*finding);
      story.findings.push_back(std::move(*finding));
    }
    if (auto late = group.lateness()) story.lateness.push_back(std::move(*late));
  }
  const auto when = [](const Diagnosis& finding) {
    return finding.failure.empty() ? INT64_MAX : finding.until.value_or(INT64_MAX);
  };
  std::sort(story.findings.begin(), story.findings.end(),
            [&](const Diagnosis& one, const Diagnosis& other) {
              return std::pair(when(one), one.group) < std::pair(when(other), other.group);
            });
  story.end = end_of(records, clocks);
  Timeline timeline(clocks, options, story.end);
  for (const FlightRecord& record : records) timeline.add(record, story);
  story.timeline = std::move(timeline).rows();
  return story;
}

}  // namespace atp
