// Finds out for whom an operation waits, and says so while the wait lasts.
//
// A rank that has waited for a second asks the ranks from which it expects something. One that has
// not called the operation says so; one that waits itself asks in turn, and passes on what it
// hears. So all ranks that wait name the ranks that hold them up, and not those that wait as well.
#include <algorithm>
#include <vector>

#include "atp/base/text.h"
#include "atp/collective/peer/engine.h"

namespace atp {
namespace {

using std::chrono::milliseconds;

// A rank that answers no question for this long is silent, and after the second time it counts as
// gone.
constexpr milliseconds kMayAnswer{500};
constexpr milliseconds kGone{15'000};
// Between questions about the same operation; what was heard holds for two of them.
constexpr milliseconds kAgain{2'000};
// How long an earlier operation must have been without progress to explain why a rank has not
// called this one.
constexpr milliseconds kHeldUp{500};
// An operation that waits has few late ranks; of very many operations the first speak for all.
constexpr std::size_t kMostReported = 16;

}  // namespace

Rank PeerEngine::number_of(std::size_t rank) const {
  const auto& names = options_.wording.ranks;
  return static_cast<Rank>(rank < names.size() ? names[rank] : rank);
}

// Data has come from this rank, or gone to it: what it said about others no longer holds.
void PeerEngine::note_moved(Task& task, std::size_t rank) {
  task.moved_at = now_;
  if (task.wondered_at) {
    task.wondered_at.reset();
    enter(task);
  }
  std::erase_if(task.late, [rank](const auto& late) { return late.second.via == rank; });
  task.late.erase(rank);
  if (task.late.empty()) held_up_.erase(task.key);
}

SteadyTime PeerEngine::next_wonder(const Task& task) const {
  if (!task.wondered_at) return task.moved_at + LateRanks::kToTell;
  return *task.wondered_at + (task.is_judged ? kAgain : kMayAnswer);
}

// Asks, and a little later looks who has not answered.
void PeerEngine::wonder(Task& task) {
  if (task.wondered_at && !task.is_judged) {
    task.is_judged = true;
    return note_silent(task);
  }
  std::erase_if(task.late,
                [this](const auto& late) { return now_ > late.second.heard_at + 2 * kAgain; });
  task.wondered_at = now_;
  task.is_judged = false;
  for (const std::size_t rank : awaited(task)) {
    Peer& peer = peers_[rank];
    if (peer.connection == nullptr || peer.ended) continue;
    if (peer.heard_at >= peer.wondered_at) peer.wondered_at = now_;
    Frame question = task.frame;
    question.kind = Frame::Kind::kWonder;
    question.number = task.key.number;
    peer.connection->post(question);
    // Nobody else knows more about a transfer than its two ranks.
    if (task.key.is_transfer)
      note_late(task, rank, {Frame::Delay::kNotCalled, options_.rank, now_});
  }
}

void PeerEngine::note_silent(Task& task) {
  for (const std::size_t rank : awaited(task)) {
    const Peer& peer = peers_[rank];
    if (!is_there(rank)) continue;
    if (peer.connection != nullptr && peer.heard_at >= peer.wondered_at) continue;
    note_late(task, rank, {Frame::Delay::kSilent, options_.rank, now_});
    if (peer.connection == nullptr || now_ < peer.wondered_at + kGone) continue;
    return fail(name(rank) + " has not answered for " + seconds_text(kGone));
  }
}

void PeerEngine::note_late(Task& task, std::size_t rank, const Late& late) {
  const bool is_news = task.late.insert_or_assign(rank, late).second;
  held_up_.insert(task.key);
  if (!is_news) return;
  for (const auto& [asker, number] : task.wonderers) {
    if (asker != rank) say_late(asker, number, rank, late.delay);
  }
}

void PeerEngine::say_late(std::size_t rank, std::uint64_t number, std::size_t late,
                          Frame::Delay delay) {
  if (peers_[rank].connection == nullptr || peers_[rank].ended) return;
  peers_[rank].connection->post({.kind = Frame::Kind::kLate,
                                 .part = static_cast<std::uint32_t>(late),
                                 .number = number,
                                 .bytes = static_cast<std::uint64_t>(delay),
                                 .offset = static_cast<std::uint64_t>(delay)});
}

void PeerEngine::hear_wonder(std::size_t rank, const Frame& frame) {
  if (is_transfer(frame.call)) return say_late(rank, frame.number, rank, Frame::Delay::kNobody);
  // A rank that waits in an earlier operation cannot call this one.
  const auto found = tasks_.upper_bound({false, frame.number});
  Task* task = found == tasks_.begin() ? nullptr : std::prev(found)->second.get();
  if (task != nullptr && task->key.is_transfer) task = nullptr;
  const bool explains =
      task != nullptr && (task->key.number == frame.number || now_ >= task->moved_at + kHeldUp);
  if (!explains) {
    const bool has_called = is_called(frame.number);
    return say_late(rank, frame.number, has_called ? rank : options_.rank,
                    has_called ? Frame::Delay::kNobody : Frame::Delay::kNotCalled);
  }
  task->wonderers[rank] = frame.number;
  say_late(rank, frame.number, rank, Frame::Delay::kNobody);
  for (const auto& [late, state] : task->late) {
    if (late != rank) say_late(rank, frame.number, late, state.delay);
  }
  if (task->wondered_at) return;
  wonder(*task);
  enter(*task);
}

void PeerEngine::hear_late(std::size_t rank, const Frame& frame) {
  const auto delay = static_cast<Frame::Delay>(frame.offset);
  const auto found = tasks_.find({false, frame.number});
  const bool is_known = delay == Frame::Delay::kNotCalled || delay == Frame::Delay::kSilent;
  if (found == tasks_.end() || !is_known) return;
  // In a circle nobody is the last.
  if (frame.part >= peers_.size() || frame.part == options_.rank) return;
  note_late(*found->second, frame.part, {delay, rank, now_});
}

std::string PeerEngine::why_late(const Task& task, std::size_t rank, Frame::Delay delay) const {
  if (delay == Frame::Delay::kSilent) {
    const bool has_line =
        peers_[rank].connection != nullptr || task.late.at(rank).via != options_.rank;
    return has_line ? name(rank) + " does not answer"
                    : "no connection with " + name(rank) + " (" + links_.why_not(rank) + ")";
  }
  const CollectiveRequest& request = task.operation->request();
  if (!task.key.is_transfer) return name(rank) + " has not called " + task.operation->text();
  const std::string tag = " with tag " + std::to_string(request.tag);
  return name(rank) +
         (request.call == Collective::kSend ? " has not called recv" : " has sent nothing") + tag;
}

void PeerEngine::report_late() {
  if (failure_ || (held_up_.empty() && late_.ranks().empty())) return;
  RankSet ranks;
  SteadyTime since = now_;
  std::vector<std::pair<const Task*, std::size_t>> found;
  std::size_t reported = 0;
  for (const TaskKey& key : held_up_) {
    if (++reported > kMostReported) break;
    const Task& task = *tasks_.at(key);
    if (now_ < task.moved_at + LateRanks::kToTell) continue;
    since = std::min(since, task.moved_at);
    for (const auto& [rank, late] : task.late) {
      if (number_of(rank) >= kMaxRanks || ranks.contains(number_of(rank))) continue;
      ranks.insert(number_of(rank));
      found.emplace_back(&task, rank);
    }
  }
  late_.observe(now_, ranks, since, [&] {
    std::string text;
    for (const auto& [task, rank] : found) {
      text += (text.empty() ? "" : "; ") + why_late(*task, rank, task->late.at(rank).delay);
    }
    return text;
  });
}

std::optional<WaitedForRanks> PeerEngine::waited_for() const {
  if (held_up_.empty() || failure_) return std::nullopt;
  return late_.waited_for(now_, tasks_.at(*held_up_.begin())->operation->text());
}

}  // namespace atp
