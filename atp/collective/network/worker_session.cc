// Starts operations when the worker has room, and turns each of its events into an end or a
// warning.
#include "atp/collective/network/worker_session.h"

#include <utility>

#include "atp/base/text.h"
#include "atp/collective/waits/spent_text.h"

namespace atp {
namespace {

std::vector<std::size_t> numbers(const RankSet& ranks) {
  std::vector<std::size_t> list;
  ranks.for_each([&](Rank rank) { list.push_back(rank); });
  return list;
}

std::uint64_t repeats_of(const Counters<WorkerCounter>& counters) {
  return counters[WorkerCounter::kRepeatsPlain] + counters[WorkerCounter::kRepeatsResend] +
         counters[WorkerCounter::kRepeatsDirect] + counters[WorkerCounter::kRepeatsFloat];
}

std::uint64_t cuts_of(const Counters<WorkerCounter>& counters) {
  return counters[WorkerCounter::kWindowCutsEcn] + counters[WorkerCounter::kWindowCutsLoss];
}

FailureKind kind_of(const Failure& failure, const FailureDetail& detail) {
  switch (failure.code) {
    case FailureCode::kNoProgress:
    case FailureCode::kOverdue:
    case FailureCode::kJoinTimeout: return FailureKind::kTimeout;
    case FailureCode::kRankLeft:
      return detail.cause.view().empty() ? FailureKind::kBroken : FailureKind::kReported;
    case FailureCode::kLeft: return FailureKind::kNone;
    case FailureCode::kOperationMismatch:
    case FailureCode::kRankLost:
    case FailureCode::kServerRestarted:
    case FailureCode::kServerLost:
    case FailureCode::kRankTaken:
    case FailureCode::kRefused:
    case FailureCode::kLeftBefore: break;
  }
  return FailureKind::kBroken;
}

}  // namespace

WorkerSession::WorkerSession(const WorkerConfig& config, const FailureContext& context, Tell warn)
    : worker_(config), context_(context), warn_(std::move(warn)), slow_(config.rank) {}

void WorkerSession::submit(std::shared_ptr<PendingOperation> operation) {
  moving_ = std::move(operation);
  waiting_.push_back(moving_);
  moving_ = nullptr;
}

void WorkerSession::leave(Instant now, const std::string& why, bool in_order) {
  const bool nothing_wrong = in_order && !failure_ && pending() == 0;
  if (!failure_) failure_ = why;
  leaving_told_at_ = now + WorkerConfig{}.tell_waiting;
  worker_.leave(now, nothing_wrong ? std::string_view() : std::string_view(*failure_));
  end_all(why);
}

void WorkerSession::give_up(Instant now, const std::string& why) {
  if (failure_) return end_all(*failure_);
  phase_ = SessionPhase::kFailed;
  failure_kind_ = FailureKind::kBroken;
  leave(now, why);
}

void WorkerSession::stop(const std::string& why) {
  if (failure_) return;
  failure_ = why;
  phase_ = SessionPhase::kFailed;
  worker_.stop();
  end_all(why);
}

void WorkerSession::handle_too_big(Instant now, const Endpoint& whom, std::size_t mtu) {
  if (failure_ || phase_ != SessionPhase::kJoined) return;
  for (const Endpoint& hop : context_.route) {
    const NarrowPath path{.hop = hop, .mtu = mtu, .value_count = worker_.value_count()};
    // Compare addresses only: the port is not always known and does not matter to the path.
    if (hop.address == whom.address && fragments_exceed(path, context_)) {
      return give_up(now, narrow_path_text(path, context_));
    }
  }
}

void WorkerSession::on_round(Instant now) {
  tell_of_slow_rank(now);
  start_waiting(now);
  while (std::optional<Event> event = worker_.poll_event()) {
    event->failure = renamed(event->failure, context_.names);
    handle_event(now, *event);
    start_waiting(now);
  }
  answer_questions();
  if (failure_) end_all(*failure_);
  tell_of_joining(now);
  tell_of_leaving(now);
  record_losses(now);
}

void WorkerSession::tell(RecordedKind kind, const std::string& text, const RankSet& ranks) {
  record(kind, text, ranks);
  warn_(text);
}

void WorkerSession::record(RecordedKind kind, const std::string& text, const RankSet& ranks) {
  if (recorded_) recorded_->note(kind, text, numbers(ranks));
}

// At most once a second, so that loss does not push everything else out of the recorder.
void WorkerSession::record_losses(Instant now) {
  if (!recorded_ || now - losses_recorded_ < std::chrono::seconds(1)) return;
  const auto& counters = worker_.counters();
  const std::uint64_t repeats = repeats_of(counters) - repeats_recorded_;
  const std::uint64_t cuts = cuts_of(counters) - cuts_recorded_;
  if (repeats == 0 && cuts == 0) return;
  losses_recorded_ = now;
  repeats_recorded_ += repeats;
  cuts_recorded_ += cuts;
  const auto counted = [](std::uint64_t number, const std::string& one) {
    return with_commas(number) + one + (number == 1 ? "" : "s");
  };
  std::string text;
  if (repeats > 0) text = counted(repeats, " fragment") + " sent again";
  if (cuts > 0) text += (text.empty() ? "" : ", ") + counted(cuts, " cut") + " of the window";
  record(RecordedKind::kLosses, text);
}

void WorkerSession::start_waiting(Instant now) {
  while (!failure_ && phase_ == SessionPhase::kJoined && !waiting_.empty()) {
    if (waiting_.front()->is_too_late()) {
      give_up(now, spent_text("rank " + std::to_string(context_.rank),
                              waiting_.front()->request().timeout));
      failure_kind_ = FailureKind::kTimeout;
      return;
    }
    // With one rank the result is the input.
    if (context_.world_size == 1) {
      ended_.push_back({waiting_.front(), ok_status()});
      waiting_.pop_front();
      continue;
    }
    const std::optional<OperationId> id =
        worker_.submit(now, waiting_.front()->spec(context_.world_size, now));
    if (!id) return;
    table_.insert(*id, std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void WorkerSession::handle_event(Instant now, const Event& event) {
  switch (event.kind) {
    case EventKind::kJoined: phase_ = SessionPhase::kJoined; break;
    case EventKind::kCompleted:
      moving_ = table_.take(event.operation);
      if (moving_) ended_.push_back({moving_, ok_status()});
      moving_ = nullptr;
      break;
    case EventKind::kFailed: fail(now, event); break;
    case EventKind::kDetached: tell_of_detaching(event); break;
    case EventKind::kAttached:
      tell(RecordedKind::kReturned, returned_text(detached_, context_));
      break;
    case EventKind::kSilent:
      context_.silence = event.failure;
      silent_since_ = now;
      tell(RecordedKind::kSilent, silence_text(event.failure, context_now()));
      break;
    case EventKind::kHeard:
      context_.silence.reset();
      tell(RecordedKind::kHeard,
           hop_text(event.endpoint, context_.route) + " answers again: the job continues");
      break;
    case EventKind::kWaiting:
      tell(RecordedKind::kWaiting, waiting_text(event.failure, context_now()), event.failure.ranks);
      break;
    case EventKind::kWaitingOver:
      tell(RecordedKind::kWaitingOver, waiting_over_text(event.failure, event.waited),
           event.failure.ranks);
      break;
    case EventKind::kPeerRefused:
      context_.peer_refused = event.failure;
      tell(RecordedKind::kPeerRefused,
           peer_refused_text(event.failure) + "; this rank waits for it", event.failure.ranks);
      break;
    case EventKind::kNoRoom:
      tell(RecordedKind::kPeerRefused,
           refusal_text(event.failure, context_now()) + ": asking again for " +
               seconds_text(worker_.lease() + Timing{}.join_refresh),
           event.failure.ranks);
      break;
    case EventKind::kLeft: phase_ = SessionPhase::kLeft; break;
  }
}

void WorkerSession::tell_of_slow_rank(Instant now) {
  if (failure_ || phase_ != SessionPhase::kJoined) return;
  const auto found = slow_.observe(now, worker_.waited_for());
  if (!found) return;
  const Failure named = renamed({.ranks = RankSet::of(found->rank)}, context_.names);
  tell(RecordedKind::kSlowRank, slow_rank_text(named, found->waited, found->window, context_now()),
       named.ranks);
}

// A server that waits for other ranks says so a little later than it could say anything.
void WorkerSession::tell_of_joining(Instant now) {
  if (!joining_since_) joining_since_ = now;
  if (joining_told_ || failure_ || phase_ != SessionPhase::kJoining) return;
  const Duration waited = now - *joining_since_;
  const RankSet& missing = worker_.waited_for();
  if (waited < (missing.empty() ? Duration(kToBeTold) : WorkerConfig{}.tell_waiting)) return;
  joining_told_ = true;
  const Failure named = renamed({.ranks = missing}, context_.names);
  const Duration seconds = std::chrono::floor<std::chrono::seconds>(waited);
  tell(RecordedKind::kWaiting, joining_text(named.ranks, seconds, context_), named.ranks);
}

void WorkerSession::tell_of_leaving(Instant now) {
  if (has_left() || now < leaving_told_at_) return;
  leaving_told_at_ = kNever;
  tell(RecordedKind::kSilent, "waiting for " + seconds_text(WorkerConfig{}.tell_waiting) + ": " +
                                  hop_text(context_.route.back(), context_.route) +
                                  " has not acknowledged that this rank leaves");
}

void WorkerSession::tell_of_detaching(const Event& event) {
  detached_ = {event.failure, event.answered_before};
  tell(RecordedKind::kDetached, detached_text(detached_, context_));
}

FailureContext WorkerSession::context_now() const {
  FailureContext context = context_;
  context.lease = worker_.lease();
  context.value_count = worker_.value_count();
  context.detail = worker_.detail();
  context.operation = text_of(table_.oldest());
  return context;
}

// For the displays of the server and the switches.
void WorkerSession::answer_questions() {
  while (const auto asked = worker_.asked_about()) {
    worker_.describe(*asked, text_of(table_.peek(*asked)));
  }
}

// Empty for what leaders of hosts agree on among themselves: no operation of the user.
std::string WorkerSession::text_of(const PendingOperation* operation) const {
  const bool is_users =
      operation != nullptr && (context_.names.empty() || operation->request().part_of.has_value());
  return is_users ? operation->text() : std::string();
}

std::optional<WaitedForRanks> WorkerSession::waited_for(Instant now) const {
  if (failure_) return std::nullopt;
  if (context_.silence && pending() > 0) {
    return WaitedForRanks{.ranks = {},
                          .waited = now - silent_since_,
                          .operation = text_of(table_.oldest()),
                          .why = silence_text(*context_.silence, context_now())};
  }
  if (worker_.waiting_since() == kNever) return std::nullopt;
  const Failure named = renamed({.ranks = worker_.waited_for()}, context_.names);
  WaitedForRanks waited{.ranks = {},
                        .waited = now - worker_.waiting_since(),
                        .operation = text_of(table_.oldest()),
                        .why = still_missing_text(named, context_now())};
  named.ranks.for_each([&](Rank rank) { waited.ranks.push_back(rank); });
  return waited;
}

// The first failure gives the cause; the worker reports it for each of its operations. If only this
// rank has noticed the failure, it tells the others at once; they would otherwise wait for a lease.
// Of a mismatch all have heard, but the server would report the end of the lease as a loss.
void WorkerSession::fail(Instant now, const Event& event) {
  moving_ = table_.take(event.operation);
  if (!failure_) {
    FailureContext context = context_now();
    if (moving_) {
      context.operation_timeout = moving_->request().timeout;
      // Words that hosts combine are not operations of the user.
      if (context.names.empty()) context.operation_kind = moving_->kind_text(context_.world_size);
    }
    failure_ = failure_text(event.failure, context);
    failure_kind_ = kind_of(event.failure, context.detail);
    if (recorded_) recorded_->failed(*failure_, numbers(event.failure.ranks));
    unheard_ = event.failure.code == FailureCode::kServerLost ||
               event.failure.code == FailureCode::kServerRestarted;
    phase_ = SessionPhase::kFailed;
    const FailureCode code = event.failure.code;
    if (code == FailureCode::kServerLost || code == FailureCode::kNoProgress ||
        code == FailureCode::kOverdue || code == FailureCode::kOperationMismatch) {
      worker_.leave(now, *failure_);
    }
  }
  if (moving_) end(std::exchange(moving_, nullptr), *failure_);
}

void WorkerSession::end(std::shared_ptr<PendingOperation> operation, const std::string& why) {
  Error error{operation->text() + ": " + why};
  ended_.push_back({std::move(operation), std::move(error)});
}

void WorkerSession::end_all(const std::string& why) {
  if (moving_) end(std::exchange(moving_, nullptr), why);
  while (auto operation = table_.take_oldest()) end(std::move(operation), why);
  for (auto& operation : std::exchange(waiting_, {})) end(std::move(operation), why);
}

}  // namespace atp
