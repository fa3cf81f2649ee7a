#include "atp/collective/participant.h"

#include <utility>

namespace atp {
namespace {

void end_with_error(PendingOperation& operation, const std::string& why) {
  operation.finish(Error{operation.text() + ": " + why});
}

}  // namespace

Participant::Participant(const WorkerConfig& config, const FailureContext& context, Tell warn,
                         Tell failed)
    : worker_(config), context_(context), warn_(std::move(warn)), failed_(std::move(failed)) {}

void Participant::submit(std::shared_ptr<PendingOperation> operation) {
  waiting_.push_back(std::move(operation));
}

void Participant::leave(Instant now, const std::string& why) {
  give_up(why);
  worker_.leave(now);
  end_all(why);
}

void Participant::handle_too_big(Instant now, const Endpoint& whom, std::size_t mtu) {
  if (failure_ || phase_ != ParticipantPhase::kJoined) return;
  for (const Endpoint& hop : context_.route) {
    const NarrowPath path{.hop = hop, .mtu = mtu, .value_count = worker_.value_count()};
    // The port is not always known, and says nothing about the path.
    if (hop.address == whom.address && fragments_exceed(path, context_)) {
      return leave(now, narrow_path_text(path, context_));
    }
  }
}

void Participant::on_round(Instant now) {
  start_waiting(now);
  while (const std::optional<Event> event = worker_.poll_event()) {
    handle_event(*event);
    start_waiting(now);
  }
  if (failure_) end_all(*failure_);
}

void Participant::start_waiting(Instant now) {
  while (!failure_ && phase_ == ParticipantPhase::kJoined && !waiting_.empty()) {
    // What one rank combines is what it has.
    if (context_.world_size == 1) {
      const std::shared_ptr<PendingOperation> copied = std::move(waiting_.front());
      waiting_.pop_front();
      copied->finish(ok_status());
      continue;
    }
    const std::optional<OperationId> id = worker_.submit(now, waiting_.front()->spec(context_.world_size));
    if (!id) return;
    table_.insert(*id, std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void Participant::handle_event(const Event& event) {
  switch (event.kind) {
    case EventKind::kJoined: phase_ = ParticipantPhase::kJoined; break;
    case EventKind::kCompleted:
      if (const auto operation = table_.take(event.operation)) operation->finish(ok_status());
      break;
    case EventKind::kFailed: fail(event); break;
    case EventKind::kDetached: tell_of_detaching(event.endpoint); break;
    case EventKind::kAttached: tell_of_return(event.endpoint); break;
    case EventKind::kLeft: phase_ = ParticipantPhase::kLeft; break;
  }
}

// A switch that never answered is another thing to look into than one that has stopped.
void Participant::tell_of_detaching(const Endpoint& parent) {
  detached_at_once_ = !parent_answered_;
  warn_(hop_text(parent, context_.route) +
        (detached_at_once_ ? " did not answer" : " no longer answers") + ": going straight to " +
        hop_text(context_.route.back(), context_.route) + " until it does");
}

void Participant::tell_of_return(const Endpoint& parent) {
  warn_(hop_text(parent, context_.route) + (detached_at_once_ ? " answers now" : " answers again") +
        ": sums go through it from now on");
}

void Participant::give_up(const std::string& why) {
  if (failure_) return;
  failure_ = why;
  if (failed_) failed_(why);
}

// The first failure gives the cause; the worker reports it for each operation that it had.
void Participant::fail(const Event& event) {
  const std::shared_ptr<PendingOperation> operation = table_.take(event.operation);
  if (!failure_) {
    FailureContext context = context_;
    context.lease = worker_.lease();
    context.value_count = worker_.value_count();
    if (operation) {
      context.operation_timeout = operation->options().timeout;
      context.operation_kind = operation->kind_text(context_.world_size);
    }
    give_up(failure_text(event.failure, context));
    phase_ = ParticipantPhase::kFailed;
  }
  if (operation) end_with_error(*operation, *failure_);
}

void Participant::end_all(const std::string& why) {
  while (const auto operation = table_.take_oldest()) end_with_error(*operation, why);
  while (!waiting_.empty()) {
    const std::shared_ptr<PendingOperation> operation = std::move(waiting_.front());
    waiting_.pop_front();
    end_with_error(*operation, why);
  }
}

}  // namespace atp
