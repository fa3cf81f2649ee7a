// Decides which rank counts as dead and when, from the ranks' messages and their silence.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "atp/base/text.h"
#include "atp/base/time.h"
#include "atp/collective/peer/engine.h"

namespace atp {
namespace {

using std::chrono::milliseconds;

// How long to wait for an explanation after a connection breaks; and when a rank has ended, to
// complete what needs nothing more of it.
constexpr milliseconds kExplanation{300};
// A rank that does not answer a question for this long counts as stopped.
constexpr milliseconds kSilence{500};
// How long to wait after an operation's time is up, so that a rank further away can name the
// culprit.
constexpr milliseconds kGrace{500};

constexpr const char* kAllMove =
    ", although its data moves: give the group a longer timeout, use smaller tensors, or have fewer"
    " operations in flight";

bool receives_from_any(const CollectiveRequest& request) {
  return request.call == Collective::kReceive && request.root == kAnyRank;
}

void set_progress(Frame& answer, Frame::Progress progress) {
  answer.offset = static_cast<std::uint64_t>(progress);
  answer.bytes = answer.offset;
}

}  // namespace

milliseconds PeerEngine::patience(const PeerOperation& operation) const {
  const milliseconds own = operation.request().timeout;
  return bounded_timeout(own.count() > 0 ? own : options_.operation_timeout);
}

std::vector<std::size_t> PeerEngine::awaited(const Task& task) const {
  std::set<std::size_t> ranks;
  for (std::size_t v = 0; v < task.values.size(); ++v) {
    const PlannedValue& planned = task.plan.values[v];
    const bool comes_in = planned.origin == PlannedValue::Origin::kReceived;
    if (!comes_in || task.values[v].complete) continue;
    if (planned.from != kAnyRank) ranks.insert(planned.from);
    // From any sender: the one that sends, if it is known, and otherwise all that could.
    if (planned.from != kAnyRank) continue;
    if (task.operation->source() != kAnyRank) {
      ranks.insert(task.operation->source());
      continue;
    }
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
      if (rank != options_.rank && is_there(rank)) ranks.insert(rank);
    }
  }
  for (std::size_t s = 0; s < task.sends.size(); ++s) {
    const PlannedSend& planned = task.plan.sends[s];
    const Value& value = task.values[planned.value];
    const bool waits_for_itself = value.filled == task.sends[s].sent && !value.complete;
    if (!task.sends[s].done && !waits_for_itself) ranks.insert(planned.to);
  }
  return {ranks.begin(), ranks.end()};
}

bool PeerEngine::needs(std::size_t rank) const {
  bool others = false;  // there are others that could serve a receive from any rank
  for (std::size_t other = 0; other < peers_.size(); ++other) {
    others = others || (other != options_.rank && other != rank && is_there(other));
  }
  return std::any_of(tasks_.begin(), tasks_.end(), [&](const auto& entry) {
    const Task& task = *entry.second;
    const auto& values = task.plan.values;
    for (std::size_t v = 0; v < values.size(); ++v) {
      if (values[v].origin != PlannedValue::Origin::kReceived || task.values[v].complete) continue;
      const bool from_any = values[v].from == kAnyRank;
      if (from_any ? (!others || task.operation->source() == rank) : values[v].from == rank) {
        return true;
      }
    }
    for (std::size_t s = 0; s < task.sends.size(); ++s) {
      if (task.plan.sends[s].to == rank && !task.sends[s].done) return true;
    }
    return false;
  });
}

void PeerEngine::note_gone(std::size_t rank) {
  if (peers_[rank].connection != nullptr) return;
  peers_[rank].ended = true;
  if (!failure_ && needs(rank)) miss(rank);
}

void PeerEngine::miss(std::size_t rank) {
  // Others may end because one has ended.
  if (!first_to_end_.empty()) return fail(first_to_end_);
  if (peers_[rank].left) return fail(name(rank) + " has left the group");
  fail(name(rank) + " is gone: it has left the group, or its process has ended" +
       (links_.is_on_own_host(rank) ? "" : ", or a firewall refuses connections to it"));
}

void PeerEngine::suspect(const std::string& text) {
  if (!suspicion_ && !failure_) suspicion_ = {text, now_ + kExplanation};
}

void PeerEngine::check_time() {
  if (failure_) return;
  if (suspicion_ && now_ >= suspicion_->until) return fail(suspicion_->text);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (!peer.call_at || now_ < *peer.call_at) continue;
    peer.call_at.reset();
    if (peer.connection == nullptr && is_there(rank)) links_.want(rank, now_);
  }
  check_tasks();
  check_waiting();
}

// Only those whose time has come, so a round costs the same however many operations are in flight.
void PeerEngine::check_tasks() {
  while (!failure_ && !agenda_.empty() && agenda_.begin()->first <= now_) {
    Task& task = *tasks_.at(agenda_.begin()->second);
    if (now_ >= next_wonder(task)) wonder(task);
    if (!failure_ && !task.asked_at && now_ >= task.ask_at) ask(task);
    if (!failure_ && now_ >= task.deadline) judge(task);
    if (!failure_) enter(task);
  }
}

void PeerEngine::check_waiting() {
  if (failure_ || must_begin_by_.empty() || now_ < must_begin_by_.begin()->first) return;
  const PeerOperation& operation = *waiting_.at(must_begin_by_.begin()->second);
  fail_late(operation.text() + " could not begin within " + seconds_text(patience(operation)) +
            ", because earlier operations have not ended");
}

SteadyTime PeerEngine::must_begin_by(const PeerOperation& operation) const {
  return operation.begun() + patience(operation) + kGrace;
}

SteadyTime PeerEngine::next_look(const Task& task) const {
  // Check a late task repeatedly, which costs little and does not last long.
  const auto again = now_ + milliseconds(20);
  const SteadyTime due = task.asked_at ? std::max(task.deadline, again) : task.ask_at;
  SteadyTime look = std::min(due, std::max(next_wonder(task), again));
  // Another rank may have asked, and been told, before this one says it.
  const auto tell = task.moved_at + LateRanks::kToTell;
  if (!task.late.empty() && now_ < tell) look = std::min(look, tell);
  return look;
}

void PeerEngine::enter(Task& task) {
  agenda_.erase({task.look_at, task.key});
  task.look_at = next_look(task);
  agenda_.emplace(task.look_at, task.key);
}

// Asks early enough for the question to reach all ranks that the task depends on.
void PeerEngine::ask(Task& task) {
  task.asked_at = now_;
  const auto left = std::chrono::ceil<milliseconds>(std::max(task.deadline - now_, {}));
  for (const std::size_t rank : awaited(task)) {
    Frame question = task.operation->frame();
    question.kind = Frame::Kind::kAsk;
    if (task.key.is_transfer) question.number = task.key.number;
    question.part = static_cast<std::uint32_t>(
        std::min<std::int64_t>(left.count(), std::numeric_limits<std::uint32_t>::max()));
    if (peers_[rank].connection != nullptr) peers_[rank].connection->post(question);
  }
}

void PeerEngine::hear_question(std::size_t rank, const Frame& frame) {
  Frame answer = frame;
  answer.kind = Frame::Kind::kAnswer;
  if (is_transfer(frame.call)) return tell_what_it_waits_for(rank, answer);
  auto progress = Frame::Progress::kEnded;
  // A rank that waits in an earlier operation cannot call this one.
  const auto found = tasks_.upper_bound({false, frame.number});
  if (found != tasks_.begin()) {
    // The rank that asks has less time left.
    Task& task = *std::prev(found)->second;
    Frame own = task.frame;
    own.bytes = frame.bytes;
    // Perhaps neither has sent the other anything that would have shown the mismatch.
    if (task.key.number == frame.number && !match(frame, own)) {
      return fail_unlike(rank, frame, task.operation->text());
    }
    task.deadline = std::min(task.deadline, now_ + milliseconds(frame.part));
    task.ask_at = std::min(task.ask_at, now_);
    enter(task);
    progress = Frame::Progress::kUnderWay;
  } else if (!is_called(frame.number)) {
    progress = Frame::Progress::kNotCalled;
  }
  set_progress(answer, progress);
  peers_[rank].connection->post(answer);
}

// In a pipeline, ranks wait for each other in a chain, and the time of the last one may be up
// first.
void PeerEngine::tell_what_it_waits_for(std::size_t asker, Frame answer) {
  set_progress(answer, Frame::Progress::kEnded);
  for (const auto& [key, task] : tasks_) {
    std::vector<std::size_t> ranks = awaited(*task);
    std::erase(ranks, asker);
    if (ranks.empty()) continue;
    const auto waited = std::chrono::floor<milliseconds>(now_ - task->operation->begun());
    set_progress(answer, Frame::Progress::kWaiting);
    answer.part = static_cast<std::uint32_t>(ranks.front());
    answer.total = static_cast<std::uint64_t>(waited.count());
    task->askers[asker] = answer;  // it is also told what that rank waits for
    task->ask_at = std::min(task->ask_at, now_);
    enter(*task);
    break;
  }
  peers_[asker].connection->post(answer);
}

void PeerEngine::hear_answer(std::size_t rank, const Frame& frame) {
  const auto found = tasks_.find({is_transfer(frame.call), frame.number});
  if (found == tasks_.end()) return;
  Task& task = *found->second;
  const auto progress = static_cast<Frame::Progress>(frame.offset);
  if (progress == Frame::Progress::kNotCalled) task.not_called.insert(rank);
  // In a circle nobody is the last.
  if (progress != Frame::Progress::kWaiting || frame.part == options_.rank ||
      frame.part >= peers_.size()) {
    return;
  }
  task.waits[rank] = frame;
  for (auto& [asker, answer] : task.askers) {
    if (asker == frame.part || peers_[asker].connection == nullptr) continue;
    answer.part = frame.part;
    peers_[asker].connection->post(answer);
  }
}

// What the rank of a transfer has said about itself.
std::string PeerEngine::wait_text(const Task& task) const {
  const auto found = task.waits.find(task.operation->request().root);
  if (found == task.waits.end()) return "";
  const auto tenths = static_cast<std::int64_t>(found->second.total / 100);
  return ", and has itself waited " + seconds_text(milliseconds(100 * tenths)) + " for " +
         name(found->second.part);
}

// Finds the culprit of a task whose time is up.
void PeerEngine::judge(Task& task) {
  const CollectiveRequest& request = task.operation->request();
  const std::string late = overdue_text(patience(*task.operation)) + ": ";
  std::vector<std::size_t> silent;
  std::vector<std::size_t> not_called;
  std::vector<std::size_t> unreachable;
  const std::vector<std::size_t> ranks = awaited(task);
  for (const std::size_t rank : ranks) {
    const Peer& peer = peers_[rank];
    if (peer.connection == nullptr) {
      unreachable.push_back(rank);
    } else if (task.not_called.contains(rank)) {
      not_called.push_back(rank);
    } else if (peer.heard_at < task.asked_at.value_or(now_)) {
      silent.push_back(rank);
    }
  }
  const auto list = [&](const std::vector<std::size_t>& names) {
    return names.size() == 1 ? name(names.front()) : options_.wording.rank_list(names);
  };
  if (request.call == Collective::kMonitoredBarrier && options_.rank == 0 && !ranks.empty()) {
    std::vector<std::size_t> named = ranks;
    if (!request.names_all) named.resize(1);
    return fail_late(own_name() + ": " + options_.wording.rank_list(named) +
                     " failed to pass monitored_barrier within " +
                     seconds_text(patience(*task.operation)));
  }
  if (!not_called.empty()) {
    return fail_late(late + list(not_called) + (not_called.size() == 1 ? " has" : " have") +
                     " not called " + task.operation->text());
  }
  // A rank gets its time to answer, however late it was asked.
  const bool may_answer = now_ < task.asked_at.value_or(now_) + kSilence;
  if (!silent.empty() && !may_answer) {
    return fail_late(late + list(silent) + (silent.size() == 1 ? " does" : " do") + " not answer");
  }
  if (!unreachable.empty() && !may_answer) {
    return fail_late(late + "no connection with " + list(unreachable) + " (" +
                     links_.why_not(unreachable.front()) + ")");
  }
  // One that makes progress is held up by nobody.
  if (now_ <
      task.moved_at + std::min<milliseconds>(LateRanks::kToTell, patience(*task.operation) / 2)) {
    return fail_late(overdue_text(patience(*task.operation)) + kAllMove);
  }
  if (receives_from_any(request) && silent.empty() && unreachable.empty()) {
    return fail_late(late + "no rank has sent anything with tag " + std::to_string(request.tag));
  }
  if (request.call == Collective::kReceive && request.root != kAnyRank && silent.empty()) {
    return fail_late(late + name(request.root) + " has sent nothing with tag " +
                     std::to_string(request.tag) + wait_text(task));
  }
  if (request.call == Collective::kSend && silent.empty()) {
    return fail_late(late + name(request.root) + " has not called recv with tag " +
                     std::to_string(request.tag) + wait_text(task));
  }
  if (now_ < task.deadline + kGrace || may_answer) return;
  fail_late(late + own_name() + " waits for " + list(ranks));
}

void PeerEngine::fail(const std::string& why, FailureKind kind) {
  // A rank that has left would only repeat what others say, and might overtake their data.
  if (failure_ || has_left_) return;
  failure_ = why;
  failure_kind_ = kind;
  receives_.clear();
  unclaimed_.clear();
  for (Peer& peer : peers_) {
    peer.outgoing.clear();
    peer.transfers.clear();
    peer.arrivals.clear();
    peer.early_ready.clear();
    peer.early.clear();
    if (peer.connection == nullptr || peer.ended) continue;
    peer.connection->let_go_of_memory();
    peer.connection->post({.kind = Frame::Kind::kFailure}, why);
  }
  for (auto& [key, task] : tasks_) {
    refuse(task->operation);
    failed_.push_back(std::move(task));
  }
  tasks_.clear();
  agenda_.clear();
  due_.clear();
  held_up_.clear();
  for (auto& [number, operation] : waiting_) refuse(std::move(operation));
  waiting_.clear();
  if (coming_) refuse(std::exchange(coming_, nullptr));
  must_begin_by_.clear();
  collectives_ = 0;
}

void PeerEngine::refuse(std::shared_ptr<PeerOperation> operation) {
  counters_.add(PeerCounter::kOperationsFailed);
  const std::string text = operation->text() + ": " + *failure_;
  ended_.push_back({std::move(operation), Error{text}});
}

std::optional<SteadyTime> PeerEngine::next_timeout() const {
  std::optional<SteadyTime> next = links_.next_timeout();
  const auto consider = [&](SteadyTime time) { next = next ? std::min(*next, time) : time; };
  if (failure_) return next;
  if (suspicion_) consider(suspicion_->until);
  for (const Peer& peer : peers_) {
    if (peer.call_at) consider(*peer.call_at);
  }
  if (!agenda_.empty()) consider(agenda_.begin()->first);
  if (!must_begin_by_.empty()) consider(must_begin_by_.begin()->first);
  return next;
}

}  // namespace atp
