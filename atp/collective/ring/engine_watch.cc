// Decides which rank counts as dead and when, from the neighbours' messages and the lack of
// progress.
#include <algorithm>
#include <cstring>
#include <utility>

#include "atp/base/text.h"
#include "atp/base/time.h"
#include "atp/collective/ring/engine.h"

namespace atp {
namespace {

using std::chrono::milliseconds;

// How long to wait for an explanation after a connection ends.
constexpr milliseconds kExplanation{1000};
// How long to complete what needs nothing more of a neighbour that has ended.
constexpr milliseconds kCompletion{300};
// A neighbour that has not answered a probe for this long counts as gone.
constexpr milliseconds kSilence{15000};
constexpr milliseconds kMaxBetweenQuestions{1000};
constexpr milliseconds kMaxGrace{2000};
constexpr const char* kDoesNotAnswer = " does not answer";
// Data that has moved within this time shows that every rank of the ring makes progress.
constexpr milliseconds kMovedLately{1000};
constexpr const char* kAllMove =
    ", although the ring makes progress: give the group a longer timeout, use smaller tensors, or "
    "have fewer operations in flight";

}  // namespace

void RingEngine::note_progress() {
  progress_at_ = now_;
  ask_at_ = now_ + asking_interval();
  for (Peer* peer : {before_.get(), next_.get()}) peer->asked_at.reset();
}

milliseconds RingEngine::patience() const {
  const RingOperation* oldest = transfers_.oldest();
  return oldest == nullptr ? bounded_timeout(options_.operation_timeout) : patience(*oldest);
}

milliseconds RingEngine::patience(const RingOperation& operation) const {
  const milliseconds own = operation.request().timeout;
  return bounded_timeout(own.count() > 0 ? own : options_.operation_timeout);
}

std::string RingEngine::mismatch_text(const Transfer& transfer) const {
  const std::string theirs = describe(transfer.found());
  const std::string mine = describe(transfer.header());
  return before_->links.name + " has called " + theirs + ", but " + own_name_ + " has called " +
         mine + (theirs == mine ? " on tensors of different lengths" : "") +
         ": all ranks must call the same collectives with the same sizes in the same order";
}

void RingEngine::note_end(Peer& peer, const Moved& moved) {
  if (moved.end != Moved::End::kClosed && moved.end != Moved::End::kBroken) return;
  peer.data_ended = true;
  if (peer.left) return miss(peer);
  const std::string why = moved.end == Moved::End::kClosed
                              ? "closed"
                              : std::string("broken: ") + std::strerror(moved.error);
  suspect("the connection with " + peer.links.name + " was " + why);
}

void RingEngine::miss(const Peer& peer) {
  const bool has_one_ended = before_->gone || next_->gone;
  fail(has_one_ended && suspicion_ ? suspicion_->text : peer.links.name + " has left the group");
}

void RingEngine::suspect(const std::string& text) {
  if (!suspicion_ && !failure_) suspicion_ = {text, now_ + kExplanation};
}

void RingEngine::read_messages(Peer& peer) {
  if (peer.line.closed()) return;
  for (const Message& message : peer.line.receive()) handle(peer, message);
  // A process that ends in good order sends a farewell.
  if (!peer.line.closed() || peer.left) return;
  const bool is_first = !before_->gone && !next_->gone;  // others may end because one has ended
  peer.gone = true;
  take_what_has_come();
  if (failure_ || !is_first) return;
  suspicion_ = {"the connection with " + peer.links.name + " was closed: its process has ended",
                now_ + kCompletion};
}

// A rank may have died after it had completed what this one still completes without it, and what
// it has sent may still come.
bool RingEngine::needs_one_that_is_gone() {
  return (next_->gone && transfers_.sending() != nullptr) ||
         (before_->gone && before_->data_ended && transfers_.receiving() != nullptr);
}

void RingEngine::handle(Peer& peer, const Message& message) {
  peer.heard_at = now_;
  switch (message.kind) {
    case Message::Kind::kAreYouThere: peer.line.send({Message::Kind::kHere, ""}); break;
    case Message::Kind::kHere: break;
    case Message::Kind::kLate: hear_late(peer, message.text); break;
    case Message::Kind::kFailure:
      take_what_has_come();
      fail(message.text, FailureKind::kReported);
      break;
    case Message::Kind::kFarewell:
      peer.left = true;
      if (peer.data_ended) miss(peer);  // the end was seen first and is explained now
      break;
  }
}

void RingEngine::check_time() {
  if (failure_) return;
  if (suspicion_ && (now_ >= suspicion_->until || needs_one_that_is_gone())) {
    return fail(suspicion_->text);
  }
  if (transfers_.empty()) return;
  if (now_ >= ask_at_) ask_neighbours();
  if (const auto why = overdue()) {
    fail(*why, now_ < deadline() ? FailureKind::kBroken : FailureKind::kTimeout);
  }
}

void RingEngine::ask_neighbours() {
  for (Peer* peer : {before_.get(), next_.get()}) {
    if (!peer->asked_at) peer->asked_at = now_;
    if (peer->heard_at >= peer->unanswered_since) peer->unanswered_since = now_;
    peer->line.send({Message::Kind::kAreYouThere, ""});
  }
  ask_at_ = now_ + asking_interval();
}

milliseconds RingEngine::asking_interval() const {
  return std::min(patience() / 4, kMaxBetweenQuestions);
}

// Finds a neighbour that has not answered for this long.
const RingEngine::Peer* RingEngine::silent_for(milliseconds limit) const {
  for (const Peer* peer : {before_.get(), next_.get()}) {
    if (peer->left || !peer->asked_at) continue;
    const auto silence = now_ - std::max(*peer->asked_at, peer->heard_at);
    if (silence >= limit) return peer;
  }
  return nullptr;
}

std::string RingEngine::too_late() const {
  return now_ < ends_by() ? "no progress for " + seconds_text(patience())
                          : overdue_text(patience(*transfers_.most_urgent()));
}

// Why the oldest operation is given up, as far as this rank knows.
std::optional<std::string> RingEngine::overdue() {
  if (const Peer* silent = silent_for(kSilence)) return silent->links.name + kDoesNotAnswer;
  if (now_ < deadline()) return std::nullopt;
  const std::string text = too_late() + ": ";
  if (now_ < progress_at_ + std::min<milliseconds>(kMovedLately, patience() / 2)) {
    return too_late() + kAllMove;
  }
  if (const Peer* silent = silent_for(2 * asking_interval())) {
    return text + silent->links.name + kDoesNotAnswer;
  }
  Transfer* receiving = transfers_.receiving();
  if (receiving != nullptr && !receiving->begun()) {
    return text + before_->links.name + " has not called " + describe(receiving->header());
  }
  if (found_late_) return text + found_late_->text;
  // Another rank has the evidence and will report it.
  if (now_ < deadline() + grace()) return std::nullopt;
  return text + own_name_ + " waits for " + before_->links.name;
}

milliseconds RingEngine::grace() const { return std::min(patience() / 2, kMaxGrace); }

// Messages have a connection of their own, so a failure may be read before data that was sent
// earlier. Operations that this data completes have not failed.
void RingEngine::take_what_has_come() {
  constexpr int kMoves = 4096;  // other ranks may still be sending
  can_send_ = !next_->data_ended;
  can_receive_ = !before_->data_ended;
  for (int i = 0; i < kMoves && move_some(); ++i) continue;
}

void RingEngine::fail(const std::string& why, FailureKind kind) {
  if (failure_) return;
  failure_ = why;
  failure_kind_ = kind;
  for (Peer* peer : {before_.get(), next_.get()}) peer->line.send({Message::Kind::kFailure, why});
  while (auto operation = transfers_.take_oldest()) refuse(std::move(operation));
  if (coming_) refuse(std::exchange(coming_, nullptr));
  ends_.clear();
}

void RingEngine::refuse(std::shared_ptr<RingOperation> operation) {
  counters_.add(RingCounter::kOperationsFailed);
  const std::string text = operation->text() + ": " + *failure_;
  ended_.push_back({std::move(operation), Error{text}});
}

std::optional<SteadyTime> RingEngine::next_timeout() const {
  if (failure_) return std::nullopt;
  std::optional<SteadyTime> at;
  if (suspicion_) at = suspicion_->until;
  if (!transfers_.empty()) {
    const SteadyTime due = now_ < deadline() ? deadline() : deadline() + grace();
    at = std::min({at.value_or(due), due, ask_at_});
  }
  return at;
}

}  // namespace atp
