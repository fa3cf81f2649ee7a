#include "atp/cli/report/group_story.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "atp/base/text.h"

namespace atp {
namespace {

using Operation = FlightRecord::Operation;
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
  // One rank may contribute or receive more than another, but the total is the same on all ranks.
  if (operation.name.starts_with("all_gather")) {
    text += "|" + std::to_string(operation.output_values);
  }
  if (operation.name.starts_with("reduce_scatter")) {
    text += "|" + std::to_string(operation.input_values);
  }
  return text;
}

// Launchers end the other ranks as soon as one has died, often before they have noticed.
bool is_ended_by_launcher(const GroupMembers& members) {
  return std::any_of(members.begin(), members.end(),
                     [](const GroupMember& member) { return member.record->reason == "SIGTERM"; });
}

}  // namespace

std::vector<GroupMembers> members_of_groups(const std::vector<FlightRecord>& records) {
  std::map<std::string, GroupMembers> by_key;
  for (const FlightRecord& record : records) {
    for (std::size_t i = 0; i < record.groups.size(); ++i) {
      GroupMember member{.record = &record, .group = &record.groups[i]};
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
  std::vector<GroupMembers> groups;
  groups.reserve(by_key.size());
  for (auto& [key, members] : by_key) groups.push_back(std::move(members));
  std::sort(groups.begin(), groups.end(), [](const auto& one, const auto& other) {
    const FlightRecord::Group& first = *one.front().group;
    const FlightRecord::Group& second = *other.front().group;
    if (first.ranks.size() != second.ranks.size()) {
      return first.ranks.size() > second.ranks.size();
    }
    return std::tie(first.opened, first.name) < std::tie(second.opened, second.name);
  });
  return groups;
}

GroupStory::Ranks GroupStory::without_file() const { return without(group().ranks, recorded_); }

// The oldest operation that the records of all ranks still include.
std::optional<std::int64_t> GroupStory::common_begin() const {
  std::optional<std::int64_t> begin;
  for (const GroupMember& member : members_) {
    if (member.operations.empty()) continue;
    const std::int64_t first = member.operations.begin()->first;
    begin = begin ? std::max(*begin, first) : first;
  }
  return begin;
}

std::optional<std::int64_t> GroupStory::first_mismatch() const {
  std::map<std::int64_t, std::set<std::string>> seen;
  for (const GroupMember& member : members_) {
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
  for (const GroupMember& member : members_) {
    for (const auto& [number, operation] : member.operations) {
      if (operation->completed) continue;
      first = first ? std::min(*first, number) : number;
      break;
    }
  }
  return first;
}

std::optional<GroupStory::FirstFailure> GroupStory::first_failure() const {
  std::optional<FirstFailure> first;
  for (const GroupMember& member : members_) {
    for (const FlightRecord::Event& event : member.record->events) {
      if (event.kind != "failure" || &member.record->groups[event.group] != member.group) continue;
      const WallTime time = on(member, event.time);
      if (first && first->time <= time) continue;
      first = FirstFailure{time, member.record->rank, event.text, event.ranks};
    }
  }
  return first;
}

// The ranks that any rank was still waiting for, according to its last report. In a chain of waits,
// the rank at its end: the leader of a host may be awaited because it waits for a rank there.
GroupStory::Ranks GroupStory::waits_reported() const {
  std::set<std::size_t> named;
  Ranks waiting;
  for (const GroupMember& member : members_) {
    Ranks last;
    for (const FlightRecord::Event& event : member.record->events) {
      if (&member.record->groups[event.group] != member.group) continue;
      if (event.kind == "waiting") last = event.ranks;
      if (event.kind == "waiting_over") last = without(last, event.ranks);
    }
    named.insert(last.begin(), last.end());
    if (!last.empty()) waiting.push_back(member.record->rank);
  }
  const Ranks all(named.begin(), named.end());
  const Ranks ends = without(all, waiting);
  return ends.empty() ? all : ends;
}

// The minority; if there is none, all ranks.
GroupStory::Ranks GroupStory::who_differs(std::int64_t number) const {
  std::map<std::string, Ranks> by_signature;
  for (const GroupMember& member : members_) {
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

void GroupStory::describe(std::int64_t number, Diagnosis& finding) const {
  std::map<std::string, std::size_t> votes;
  for (const GroupMember& member : members_) {
    Diagnosis::Part part{.rank = member.record->rank, .state = "not begun"};
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

// The ranks that began long after the first one, or had not begun long after it, when they wrote
// their files.
GroupStory::Ranks GroupStory::late(const Diagnosis& finding) const {
  std::optional<WallTime> first;
  for (const Diagnosis::Part& part : finding.parts) {
    if (part.begun) first = first ? std::min(*first, *part.begun) : part.begun;
  }
  Ranks late;
  if (!first) return late;
  for (std::size_t i = 0; i < finding.parts.size(); ++i) {
    const Diagnosis::Part& part = finding.parts[i];
    const WallTime here = part.begun.value_or(on(members_[i], members_[i].record->written));
    if (here - *first >= kNoticeable) late.push_back(part.rank);
  }
  return late;
}

void GroupStory::judge(const std::optional<FirstFailure>& failure, Diagnosis& finding) const {
  const Ranks lost = without_file();
  const Ranks late_ranks = late(finding);
  Ranks named = failure ? failure->ranks : waits_reported();
  if (failure && named.empty()) {
    named = without(ranks_named_in(failure->text), {failure->rank});
    // A text may also name ranks that only pass on what they heard.
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
  const auto blame = [&](const char* evidence, const Ranks& ranks, const char* text) {
    if (!finding.ranks.empty() || ranks.empty()) return;
    finding.evidence = evidence;
    finding.ranks = ranks;
    finding.because = fmt::format(fmt::runtime(text), ranks_text(ranks));
    const Ranks gone = without(ranks, without(ranks, lost));
    if (gone.empty() || &ranks == &lost) return;
    finding.because += fmt::format("; {} left no file", ranks_text(gone));
  };
  blame("reported", named,
        failure ? "the first failure names {}" : "the ranks that waited named {}");
  if (late_ranks.size() < finding.parts.size()) {
    blame("not_begun", late_ranks,
          "{} began it last, or had not begun it when the file was written");
  }
  blame("no_file", lost, "nothing else names a rank, but {} left no file");
  for (const Diagnosis::Part& part : finding.parts) {
    if (contains(finding.ranks, part.rank) || !part.begun || part.state == "completed") continue;
    finding.waiting.push_back(part.rank);
    finding.since = finding.since ? std::min(*finding.since, *part.begun) : part.begun;
    if (part.ended)
      finding.until = finding.until ? std::min(*finding.until, *part.ended) : part.ended;
  }
}

std::optional<Diagnosis> GroupStory::finding() {
  const auto failure = first_failure();
  const auto mismatch = first_mismatch();
  const auto unfinished = first_unfinished();
  Diagnosis finding;
  finding.severity = Severity::kBad;
  finding.kind = "failed";
  finding.group = name();
  if (failure) {
    finding.told_by = failure->rank;
    finding.failure = failure->text;
    finding.until = failure->time;
  }
  // A mismatch after the first unfinished operation is a consequence of it.
  if (mismatch && (!unfinished || *mismatch <= *unfinished)) {
    finding.kind = "mismatch";
    finding.evidence = "differs";
    finding.ranks = who_differs(*mismatch);
    describe(*mismatch, finding);
    return finding;
  }
  if (unfinished) describe(*unfinished, finding);
  judge(failure, finding);
  if (failure) return finding;
  if (auto waits = of_transfers(); waits && !unfinished) return waits;
  finding.severity = Severity::kWarning;
  finding.kind = "waiting";
  if (finding.ranks.empty() || !finding.since) return std::nullopt;
  if (finding.evidence == "no_file" && is_ended_by_launcher(members_)) {
    return finding;
  }
  WallTime last = *finding.since;
  for (const GroupMember& member : members_) {
    last = std::max(last, on(member, member.record->written));
  }
  return last - *finding.since >= kNoticeable ? std::optional(finding) : std::nullopt;
}

// The oldest transfer that has waited a long time; its peer may be late, or have no reason to come.
std::optional<Diagnosis> GroupStory::of_transfers() const {
  std::optional<Diagnosis> oldest;
  for (const GroupMember& member : members_) {
    for (const Operation* transfer : member.transfers) {
      if (transfer->ended()) continue;
      const WallTime begun = on(member, transfer->begun);
      if (on(member, member.record->written) - begun < kNoticeable) continue;
      if (oldest && *oldest->since <= begun) continue;
      oldest.emplace();
      oldest->severity = Severity::kWarning;
      oldest->kind = "waiting";
      oldest->group = name();
      oldest->operation = operation_text(*transfer);
      oldest->waiting = {member.record->rank};
      oldest->since = begun;
    }
  }
  return oldest;
}

std::optional<GroupLateness> GroupStory::lateness() const {
  const auto begin = common_begin();
  if (!begin || members_.size() < 2) return std::nullopt;
  std::map<std::size_t, std::vector<std::int64_t>> behind;
  std::size_t operations = 0;
  for (const auto& [number, first_operation] : members_.front().operations) {
    if (number < *begin || !waits_for_all(*first_operation)) continue;
    std::pair<WallTime, std::size_t> first{INT64_MAX, 0};
    std::pair<WallTime, std::size_t> last{INT64_MIN, 0};
    bool is_complete = true;
    for (const GroupMember& member : members_) {
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
  std::optional<GroupLateness> latest;
  for (auto& [rank, times] : behind) {
    if (latest && latest->last >= times.size()) continue;
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    latest = GroupLateness{name(), rank, times.size(), operations, *middle};
  }
  if (!latest || latest->median < kWorthTelling) return std::nullopt;
  return latest;
}

}  // namespace atp
