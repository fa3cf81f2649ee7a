// The rings of operations and events, and a group's place in them.
#include "atp/collective/recorder/flight_recorder.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "atp/collective/recorder/record_files.h"

namespace atp {
namespace {

Recording::Time now() { return std::chrono::steady_clock::now(); }

// Not destroyed: operations may end while static objects are destroyed, and a forked child cannot
// know in what state its parent's was.
FlightRecorder* of_this_process = nullptr;

void start_afresh() { of_this_process = new FlightRecorder(RecorderSettings::of_process().size); }

}  // namespace

std::string_view to_string(RecordedKind kind) {
  switch (kind) {
    case RecordedKind::kOpened: return "opened";
    case RecordedKind::kClosed: return "closed";
    case RecordedKind::kLeft: return "left";
    case RecordedKind::kFailure: return "failure";
    case RecordedKind::kDetached: return "detached";
    case RecordedKind::kReturned: return "returned";
    case RecordedKind::kSilent: return "server_silent";
    case RecordedKind::kHeard: return "server_answers";
    case RecordedKind::kWaiting: return "waiting";
    case RecordedKind::kWaitingOver: return "waiting_over";
    case RecordedKind::kSlowRank: return "straggler";
    case RecordedKind::kPeerRefused: return "peer_refused";
    case RecordedKind::kLosses: return "losses";
    case RecordedKind::kWarning: break;
  }
  return "warning";
}

FlightRecorder::FlightRecorder(std::size_t operations) : kept_(operations) {}

FlightRecorder& FlightRecorder::of_process() {
  static std::once_flag once;
  std::call_once(once, [] {
    start_afresh();
    pthread_atfork(nullptr, nullptr, start_afresh);
  });
  return *of_this_process;
}

FlightRecorder::GroupNumber FlightRecorder::open(RecordedGroupInfo info) {
  if (!enabled()) return 0;
  const std::lock_guard lock(mutex_);
  if (operations_.empty()) {
    operations_.resize(kept_);
    events_.resize(kEvents);
  }
  forget_old_groups();
  groups_.push_back({next_group_, {std::move(info), now(), std::nullopt, ""}});
  return next_group_++;
}

// Forgets those that were closed first.
void FlightRecorder::forget_old_groups() {
  if (groups_.size() < kMostGroups) return;
  const auto closed = std::find_if(groups_.begin(), groups_.end(),
                                   [](const Group& each) { return each.group.closed.has_value(); });
  if (closed != groups_.end()) groups_.erase(closed);
}

FlightRecorder::Group* FlightRecorder::find(GroupNumber number) {
  for (Group& each : groups_) {
    if (each.number == number) return &each;
  }
  return nullptr;
}

void FlightRecorder::describe(GroupNumber group, std::string description) {
  const std::lock_guard lock(mutex_);
  if (Group* found = find(group)) found->group.info.description = std::move(description);
}

void FlightRecorder::close(GroupNumber group) {
  const std::lock_guard lock(mutex_);
  if (Group* found = find(group)) found->group.closed = now();
}

FlightRecorder::Token FlightRecorder::begin(GroupNumber group, const OperationStart& start) {
  if (!enabled()) return 0;
  const Time begun = now();
  const std::lock_guard lock(mutex_);
  Operation& slot = operations_[next_token_ % kept_];
  slot.token = next_token_;
  slot.id = start.is_transfer ? next_transfer_++ : next_collective_++;
  slot.group = group;
  slot.state = Recording::State::kBegun;
  slot.start = start;
  slot.begun = begun;
  return next_token_++;
}

void FlightRecorder::end(Token token, bool succeeded) {
  if (token == 0) return;
  const Time ended = now();
  const std::lock_guard lock(mutex_);
  Operation& slot = operations_[token % kept_];
  if (slot.token != token) return;  // overwritten
  slot.state = succeeded ? Recording::State::kCompleted : Recording::State::kFailed;
  slot.ended = ended;
}

bool FlightRecorder::note(GroupNumber group, RecordedKind kind, std::string_view text,
                          const std::vector<std::size_t>& ranks) {
  if (!enabled()) return false;
  const std::lock_guard lock(mutex_);
  Group* found = find(group);
  bool is_first = false;
  if (kind == RecordedKind::kFailure && found != nullptr) {
    is_first = found->group.failure.empty();
    // Each operation in flight repeats the cause after its own name.
    if (!is_first && text.ends_with(found->group.failure)) return false;
    if (is_first) found->group.failure = text;
  }
  Event& slot = events_[next_event_++ % events_.size()];
  slot.group = group;
  slot.kind = kind;
  slot.time = now();
  slot.ranks_named = static_cast<std::uint8_t>(std::min(ranks.size(), kMostRanks));
  for (std::size_t i = 0; i < slot.ranks_named; ++i) {
    slot.ranks[i] = static_cast<std::uint32_t>(ranks[i]);
  }
  slot.text_size = static_cast<std::uint16_t>(std::min(text.size(), kMostText));
  std::memcpy(slot.text.data(), text.data(), slot.text_size);
  return is_first;
}

Recording FlightRecorder::read() const {
  Recording recording;
  const std::lock_guard lock(mutex_);
  const auto place_of = [this](GroupNumber number) -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (groups_[i].number == number) return i;
    }
    return std::nullopt;
  };
  for (const Group& each : groups_) recording.groups.push_back(each.group);
  const Token tokens = next_token_ - 1;
  const Token first = tokens > kept_ ? tokens - kept_ : 0;
  recording.overwritten_operations = first;
  for (Token token = first + 1; token <= tokens; ++token) {
    const Operation& slot = operations_[token % kept_];
    const auto group = place_of(slot.group);
    if (!group) continue;
    recording.operations.push_back(
        {slot.id, *group, slot.start, slot.state, slot.begun, slot.ended});
  }
  const std::uint64_t first_event = next_event_ > kEvents ? next_event_ - kEvents : 0;
  recording.overwritten_events = first_event;
  for (std::uint64_t i = first_event; i < next_event_; ++i) {
    const Event& slot = events_[i % kEvents];
    const auto group = place_of(slot.group);
    if (!group) continue;
    recording.events.push_back({*group,
                                slot.kind,
                                slot.time,
                                {slot.ranks.begin(), slot.ranks.begin() + slot.ranks_named},
                                {slot.text.data(), slot.text_size}});
  }
  return recording;
}

std::shared_ptr<RecordedGroup> RecordedGroup::open(RecordedGroupInfo info) {
  if (!FlightRecorder::of_process().enabled()) return nullptr;
  start_writing_records();
  return std::shared_ptr<RecordedGroup>(new RecordedGroup(std::move(info)));
}

std::shared_ptr<RecordedGroup> RecordedGroup::open(const std::string& kind, std::uint64_t token,
                                                   std::size_t rank, std::size_t world_size,
                                                   std::vector<std::size_t> names) {
  for (std::size_t next = names.size(); next < world_size; ++next) names.push_back(next);
  const std::string text = std::to_string(token);
  const std::size_t own = names[rank];
  return open({.name = kind + " " + text, .job = text, .rank = own, .ranks = std::move(names)});
}

std::function<void(const Status&)> RecordedGroup::ending(std::shared_ptr<RecordedGroup> group,
                                                         Token token,
                                                         std::function<void(const Status&)> done) {
  return [group = std::move(group), token, done = std::move(done)](const Status& status) {
    group->end(token, status);
    if (done) done(status);
  };
}

RecordedGroup::RecordedGroup(RecordedGroupInfo info)
    : recorder_(FlightRecorder::of_process()),
      owner_(getpid()),
      ranks_(info.ranks),
      number_(recorder_.open(std::move(info))) {
  recorder_.note(number_, RecordedKind::kOpened, "");
}

RecordedGroup::~RecordedGroup() {
  // In a forked child the mutex may stay locked: another thread may have held it at the fork.
  if (getpid() != owner_) return;
  recorder_.note(number_, RecordedKind::kClosed, "");
  recorder_.close(number_);
}

void RecordedGroup::end(Token token, const Status& status) {
  if (status.ok()) {
    end_completed(token);
  } else {
    end_failed(token, status.error().message);
  }
}

bool RecordedGroup::end_failed(Token token, const std::string& why) {
  recorder_.end(token, false);
  recorder_.note(number_, RecordedKind::kFailure, why);
  // Even if the failure is known: the file should say that this operation has failed.
  ask_for_records("failure: " + why);
  return !has_failed_operations_.exchange(true);
}

std::vector<std::size_t> RecordedGroup::in_job(const std::vector<std::size_t>& ranks) const {
  std::vector<std::size_t> numbers;
  numbers.reserve(ranks.size());
  for (const std::size_t rank : ranks) {
    numbers.push_back(rank < ranks_.size() ? ranks_[rank] : rank);
  }
  return numbers;
}

void RecordedGroup::note(RecordedKind kind, std::string_view text,
                         const std::vector<std::size_t>& ranks) {
  recorder_.note(number_, kind, text, in_job(ranks));
}

void RecordedGroup::failed(std::string_view why, const std::vector<std::size_t>& ranks) {
  const bool is_first = recorder_.note(number_, RecordedKind::kFailure, why, in_job(ranks));
  if (is_first) ask_for_records("failure: " + std::string(why));
}

}  // namespace atp
