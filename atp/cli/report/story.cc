// Compares what the ranks of each group did in each operation, and finds the first one that not all
// of them have completed.
#include "atp/cli/report/story.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "atp/base/text.h"

namespace atp {
namespace {

using Operation = RankRecord::Operation;
using Ranks = std::vector<std::size_t>;

// Shorter waits are part of every job.
constexpr std::int64_t kNoticeable = 1'000'000'000;
constexpr std::int64_t kWorthTelling = 1'000'000;

bool contains(const Ranks& ranks, std::size_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

Ranks without(const Ranks& ranks, const Ranks& others) {
  Ranks left;
  for (const std::size_t rank : ranks) {
    if (!contains(others, rank)) left.push_back(rank);
  }
  return left;
}

// What must be equal on all ranks.
std::string signature(const Operation& operation) {
  std::string text = operation.name + "|" + operation.type + "|" + std::to_string(operation.tag);
  const bool varies = operation.name.starts_with("all_to_all") || operation.name == "gather" ||
                      operation.name == "scatter" || operation.name.starts_with("all_gather") ||
                      operation.name.starts_with("reduce_scatter");
  if (!varies) text += "|" + std::to_string(operation.input_values);
  // A root or a rank may own more than others, but the total of these is common.
  if (operation.name.starts_with("all_gather")) {
    text += "|" + std::to_string(operation.output_values);
  }
  if (operation.name.starts_with("reduce_scatter")) {
    text += "|" + std::to_string(operation.input_values);
  }
  return text;
}

struct Member {
  const RankRecord* record = nullptr;
  const RankRecord::Group* group = nullptr;
  std::map<std::int64_t, const Operation*> operations;  // collectives, by number
  std::vector<const Operation*> transfers;
};

struct FirstFailure {
  WallTime time = 0;
  std::size_t rank = 0;
  std::string text;
  Ranks ranks;
};

class GroupStory {
 public:
  GroupStory(std::vector<Member> members, const HostClocks& clocks, const Ranks& recorded)
      : members_(std::move(members)), clocks_(clocks), recorded_(recorded) {}

  std::optional<Finding> finding();
  std::optional<Lateness> lateness() const;

 private:
  const RankRecord::Group& group() const { return *members_.front().group; }
  std::string name() const {
    const std::string& description = group().description;
    return description == "undefined" ? group().name : group().name + " (" + description + ")";
  }
  WallTime on(const Member& member, WallTime time) const {
    return clocks_.corrected(member.record->host, time);
  }
  Ranks without_file() const { return without(group().ranks, recorded_); }

  std::optional<std::int64_t> first_mismatch() const;
  std::optional<std::int64_t> first_unfinished() const;
  std::optional<FirstFailure> first_failure() const;
  Ranks waits_reported() const;
  Ranks who_differs(std::int64_t number) const;
  std::optional<std::int64_t> common_begin() const;
  void describe(std::int64_t number, Finding& finding) const;
  void judge(const std::optional<FirstFailure>& failure, Finding& finding) const;
  Ranks late(const Finding& finding) const;
  std::optional<Finding> of_transfers() const;

  const std::vector<Member> members_;  // by rank
  const HostClocks& clocks_;
  const Ranks& recorded_;
};

// Before it, not all ranks' rings reach back.
std::optional<std::int64_t> GroupStory::common_begin() const {
  std::optional<std::int64_t> begin;
  for (const Member& member : members_) {
    if (member.operations.empty()) continue;
    const std::int64_t first = member.operations.begin()->first;
    begin = begin ? std::max(*begin, first) : first;
  }
  return begin;
}

std::optional<std::int64_t> GroupStory::first_mismatch() const {
  std::map<std::int64_t, std::set<std::string>> seen;
  for (const Member& member : members_) {
    for (const auto& [number, operation] : member.operations) {
      seen[number].insert(signature(*operation));
    }
  }
  for (const auto& [number, signatures] : seen) {
    if (signatures.size() > 1) return number;
  }
  return std::nullopt;
}

std::optional<std::int64_t> GroupStory::first_unfinished() const {
  std::optional<std::int64_t> first;
  for (const Member& member : members_) {
    for (const auto& [number, operation] : member.operations) {
      if (operation->completed) continue;
      first = first ? std::min(*first, number) : number;
      break;
    }
  }
  return first;
}

std::optional<FirstFailure> GroupStory::first_failure() const {
  std::optional<FirstFailure> first;
  for (const Member& member : members_) {
    for (const RankRecord::Event& event : member.record->events) {
      if (event.kind != "failure" || &member.record->groups[event.group] != member.group) continue;
      const WallTime time = on(member, event.time);
      if (first && first->time <= time) continue;
      first = FirstFailure{time, member.record->rank, event.text, event.ranks};
    }
  }
  return first;
}

// By the last word of each rank that nobody has taken back.
Ranks GroupStory::waits_reported() const {
  std::set<std::size_t> named;
  for (const Member& member : members_) {
    Ranks last;
    for (const RankRecord::Event& event : member.record->events) {
      if (&member.record->groups[event.group] != member.group) continue;
      if (event.kind == "waiting") last = event.ranks;
      if (event.kind == "waiting_over") last = without(last, event.ranks);
    }
    named.insert(last.begin(), last.end());
  }
  return {named.begin(), named.end()};
}

// The minority; all, if there is none.
Ranks GroupStory::who_differs(std::int64_t number) const {
  std::map<std::string, Ranks> by_signature;
  for (const Member& member : members_) {
    const auto found = member.operations.find(number);
    if (found == member.operations.end()) continue;
    by_signature[signature(*found->second)].push_back(member.record->rank);
  }
  const auto most = std::max_element(
      by_signature.begin(), by_signature.end(),
      [](const auto& one, const auto& other) { return one.second.size() < other.second.size(); });
  Ranks differing;
  bool is_tie = false;
  for (auto at = by_signature.begin(); at != by_signature.end(); ++at) {
    is_tie |= at != most && at->second.size() == most->second.size();
    if (at != most) differing.insert(differing.end(), at->second.begin(), at->second.end());
  }
  if (is_tie) differing.insert(differing.end(), most->second.begin(), most->second.end());
  std::sort(differing.begin(), differing.end());
  return differing;
}

void GroupStory::describe(std::int64_t number, Finding& finding) const {
  std::map<std::string, std::size_t> votes;
  for (const Member& member : members_) {
    Finding::Part part{.rank = member.record->rank, .state = "not begun"};
    const auto found = member.operations.find(number);
    if (found != member.operations.end()) {
      const Operation& operation = *found->second;
      part.operation = operation_text(operation);
      part.begun = on(member, operation.begun);
      if (operation.ended()) part.ended = on(member, *operation.ended());
      part.state = operation.completed ? "completed" : operation.failed ? "failed" : "unfinished";
      ++votes[part.operation];
    }
    finding.parts.push_back(std::move(part));
  }
  std::size_t most = 0;
  for (const auto& [text, count] : votes) {
    if (count <= most) continue;
    most = count;
    finding.operation = text;
  }
}

// Who had not begun long after others had, as far as its file reaches.
Ranks GroupStory::late(const Finding& finding) const {
  std::optional<WallTime> first;
  for (const Finding::Part& part : finding.parts) {
    if (part.begun) first = first ? std::min(*first, *part.begun) : part.begun;
  }
  Ranks late;
  if (!first) return late;
  for (std::size_t i = 0; i < finding.parts.size(); ++i) {
    const Finding::Part& part = finding.parts[i];
    const WallTime here = part.begun.value_or(on(members_[i], members_[i].record->written));
    if (here - *first >= kNoticeable) late.push_back(part.rank);
  }
  return late;
}

void GroupStory::judge(const std::optional<FirstFailure>& failure, Finding& finding) const {
  const Ranks lost = without_file();
  const Ranks late_ranks = late(finding);
  Ranks named = failure ? failure->ranks : waits_reported();
  if (failure && named.empty()) {
    named = without(ranks_named_in(failure->text), {failure->rank});
    // Texts also name ranks that only pass on what they heard.
    Ranks both;
    for (const std::size_t rank : named) {
      if (contains(lost, rank) || contains(late_ranks, rank)) both.push_back(rank);
    }
    if (!both.empty()) {
      named = both;
    } else if (!late_ranks.empty()) {
      named.clear();
    }
  }
  const auto blame = [&](Finding::Evidence evidence, const Ranks& ranks) {
    if (!finding.ranks.empty() || ranks.empty()) return;
    finding.evidence = evidence;
    finding.ranks = ranks;
  };
  blame(Finding::Evidence::kReported, named);
  if (late_ranks.size() < finding.parts.size()) {
    blame(Finding::Evidence::kNotEntered, late_ranks);
  }
  blame(Finding::Evidence::kNoFile, lost);
  for (const Finding::Part& part : finding.parts) {
    if (contains(finding.ranks, part.rank) || !part.begun || part.state == "completed") continue;
    finding.waiting.push_back(part.rank);
    finding.since = finding.since ? std::min(*finding.since, *part.begun) : part.begun;
    if (part.ended)
      finding.until = finding.until ? std::min(*finding.until, *part.ended) : part.ended;
  }
}

std::optional<Finding> GroupStory::finding() {
  const auto failure = first_failure();
  const auto mismatch = first_mismatch();
  const auto unfinished = first_unfinished();
  Finding finding;
  finding.group = name();
  if (failure) {
    finding.told_by = failure->rank;
    finding.failure = failure->text;
    finding.until = failure->time;
  }
  // A mismatch behind the first unfinished operation is its consequence.
  if (mismatch && (!unfinished || *mismatch <= *unfinished)) {
    finding.kind = Finding::Kind::kMismatch;
    finding.evidence = Finding::Evidence::kDiffers;
    finding.ranks = who_differs(*mismatch);
    describe(*mismatch, finding);
    return finding;
  }
  if (unfinished) describe(*unfinished, finding);
  judge(failure, finding);
  if (failure) return finding;
  if (auto waits = of_transfers(); waits && !unfinished) return waits;
  finding.kind = Finding::Kind::kWaiting;
  if (finding.ranks.empty() || !finding.since) return std::nullopt;
  WallTime last = *finding.since;
  for (const Member& member : members_) last = std::max(last, on(member, member.record->written));
  return last - *finding.since >= kNoticeable ? std::optional(finding) : std::nullopt;
}

// The oldest transfer that has waited for long; its peer may be late, or have no reason to come.
std::optional<Finding> GroupStory::of_transfers() const {
  std::optional<Finding> oldest;
  for (const Member& member : members_) {
    for (const Operation* transfer : member.transfers) {
      if (transfer->ended()) continue;
      const WallTime begun = on(member, transfer->begun);
      if (on(member, member.record->written) - begun < kNoticeable) continue;
      if (oldest && *oldest->since <= begun) continue;
      oldest = Finding{.kind = Finding::Kind::kWaiting,
                       .group = name(),
                       .operation = operation_text(*transfer),
                       .waiting = {member.record->rank},
                       .since = begun};
    }
  }
  return oldest;
}

std::optional<Lateness> GroupStory::lateness() const {
  const auto begin = common_begin();
  if (!begin || members_.size() < 2) return std::nullopt;
  std::map<std::size_t, std::vector<std::int64_t>> behind;
  std::size_t operations = 0;
  for (const auto& [number, first_operation] : members_.front().operations) {
    if (number < *begin || !waits_for_all(*first_operation)) continue;
    std::pair<WallTime, std::size_t> first{INT64_MAX, 0};
    std::pair<WallTime, std::size_t> last{INT64_MIN, 0};
    bool is_complete = true;
    for (const Member& member : members_) {
      const auto found = member.operations.find(number);
      is_complete &= found != member.operations.end() && found->second->completed.has_value();
      if (!is_complete) break;
      const std::pair entered{on(member, found->second->begun), member.record->rank};
      first = std::min(first, entered);
      last = std::max(last, entered);
    }
    if (!is_complete) continue;
    ++operations;
    behind[last.second].push_back(last.first - first.first);
  }
  std::optional<Lateness> latest;
  for (auto& [rank, times] : behind) {
    if (latest && latest->last >= times.size()) continue;
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    latest = Lateness{name(), rank, times.size(), operations, *middle};
  }
  if (!latest || latest->median < kWorthTelling) return std::nullopt;
  return latest;
}

// All groups with their members, the largest and oldest first.
std::vector<std::vector<Member>> groups_of(const std::vector<RankRecord>& records) {
  std::map<std::string, std::vector<Member>> by_key;
  for (const RankRecord& record : records) {
    for (std::size_t i = 0; i < record.groups.size(); ++i) {
      Member member{.record = &record, .group = &record.groups[i]};
      for (const Operation& operation : record.operations) {
        if (operation.group != i) continue;
        if (operation.is_transfer) {
          member.transfers.push_back(&operation);
        } else {
          member.operations[operation.number] = &operation;
        }
      }
      by_key[record.groups[i].key()].push_back(std::move(member));
    }
  }
  std::vector<std::vector<Member>> groups;
  groups.reserve(by_key.size());
  for (auto& [key, members] : by_key) groups.push_back(std::move(members));
  std::sort(groups.begin(), groups.end(), [](const auto& one, const auto& other) {
    const RankRecord::Group& first = *one.front().group;
    const RankRecord::Group& second = *other.front().group;
    if (first.ranks.size() != second.ranks.size()) {
      return first.ranks.size() > second.ranks.size();
    }
    return std::tie(first.opened, first.name) < std::tie(second.opened, second.name);
  });
  return groups;
}

std::string event_text(const RankRecord& record, const RankRecord::Event& event) {
  const RankRecord::Group& group = record.groups[event.group];
  if (event.kind == "opened") return "joined group " + group.name;
  if (event.kind == "closed") return "closed group " + group.name;
  if (event.kind == "left") return "left group " + group.name + ": " + event.text;
  if (event.kind == "failure") return "failed: " + event.text;
  return event.text;
}

class Timeline {
 public:
  Timeline(const HostClocks& clocks, const StoryOptions& options, WallTime end)
      : clocks_(clocks), options_(options), begin_(end - options.last_ns) {}

  void add(const RankRecord& record, const Story& story) {
    for (const RankRecord::Event& event : record.events) {
      row(record, event.time, event_text(record, event));
    }
    const std::set<std::string> shown = shown_operations(story);
    for (const Operation& operation : record.operations) {
      const std::string text = operation_text(operation);
      if (!options_.all_operations && !shown.contains(text)) continue;
      row(record, operation.begun, "began " + text);
      if (operation.completed) row(record, *operation.completed, "completed " + text);
      if (operation.failed) row(record, *operation.failed, "failed in " + text);
    }
    row(record, record.written, "wrote its file: " + record.reason);
  }

  std::vector<TimelineRow> rows() && {
    std::sort(rows_.begin(), rows_.end(), [](const auto& one, const auto& other) {
      return std::tie(one.time, one.rank) < std::tie(other.time, other.rank);
    });
    return std::move(rows_);
  }

 private:
  static std::set<std::string> shown_operations(const Story& story) {
    std::set<std::string> shown;
    for (const Finding& finding : story.findings) {
      shown.insert(finding.operation);
      for (const Finding::Part& part : finding.parts) shown.insert(part.operation);
    }
    return shown;
  }
  void row(const RankRecord& record, WallTime time, std::string text) {
    const WallTime corrected = clocks_.corrected(record.host, time);
    if (corrected < begin_) return;
    rows_.push_back({corrected, record.rank, record.host, std::move(text)});
  }

  const HostClocks& clocks_;
  const StoryOptions& options_;
  const WallTime begin_;
  std::vector<TimelineRow> rows_;
};

WallTime end_of(const std::vector<RankRecord>& records, const HostClocks& clocks) {
  std::optional<WallTime> failure;
  WallTime written = INT64_MIN;
  for (const RankRecord& record : records) {
    written = std::max(written, clocks.corrected(record.host, record.written));
    for (const RankRecord::Event& event : record.events) {
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

std::string ranks_list(const Ranks& ranks) {
  if (ranks.empty()) return "no rank";
  if (ranks.size() == 1) return "rank " + std::to_string(ranks.front());
  std::string text = "ranks ";
  constexpr std::size_t kMost = 12;
  const std::size_t shown = std::min(ranks.size(), kMost);
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (shown < ranks.size()) text += " and " + std::to_string(ranks.size() - shown) + " others";
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

Status check_one_job(const std::vector<RankRecord>& records) {
  // Ranks of one job share a group.
  std::vector<std::set<std::string>> keys;
  std::vector<Ranks> jobs;
  std::vector<std::string> names;
  for (const RankRecord& record : records) {
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
    std::string text = "the files are of different jobs, or of different starts of one:";
    std::vector<std::pair<Ranks, std::string>> sorted;
    sorted.reserve(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) sorted.emplace_back(jobs[i], names[i]);
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      text += (i > 0 ? "; " : " ") + ranks_list(sorted[i].first) + " of job " + sorted[i].second;
    }
    return Error{text + ": move those of other jobs to another folder, or name the files of one"};
  }
  std::map<std::size_t, std::string> files;
  for (const RankRecord& record : records) {
    const auto [at, is_new] = files.emplace(record.rank, record.file);
    if (!is_new) {
      return Error{"two files are of rank " + std::to_string(record.rank) + ": " + at->second +
                   " and " + record.file + ": name one of them"};
    }
  }
  return ok_status();
}

Story tell_story(const std::vector<RankRecord>& records, const HostClocks& clocks,
                 const StoryOptions& options) {
  Story story;
  std::set<std::size_t> all;
  for (const RankRecord& record : records) {
    story.ranks.push_back(record.rank);
    if (std::find(story.hosts.begin(), story.hosts.end(), record.host) == story.hosts.end()) {
      story.hosts.push_back(record.host);
    }
    for (const auto& group : record.groups) all.insert(group.ranks.begin(), group.ranks.end());
  }
  story.without_record = without({all.begin(), all.end()}, story.ranks);
  const auto groups = groups_of(records);
  if (!groups.empty()) story.job = groups.front().front().group->job;
  for (const auto& members : groups) {
    GroupStory group(members, clocks, story.ranks);
    if (auto finding = group.finding()) story.findings.push_back(std::move(*finding));
    if (auto late = group.lateness()) story.lateness.push_back(std::move(*late));
  }
  const auto when = [](const Finding& finding) {
    return finding.failure.empty() ? INT64_MAX : finding.until.value_or(INT64_MAX);
  };
  std::sort(story.findings.begin(), story.findings.end(),
            [&](const Finding& one, const Finding& other) {
              return std::pair(when(one), one.group) < std::pair(when(other), other.group);
            });
  story.end = end_of(records, clocks);
  Timeline timeline(clocks, options, story.end);
  for (const RankRecord& record : records) timeline.add(record, story);
  story.timeline = std::move(timeline).rows();
  return story;
}

}  // namespace atp
