#include "atp/core/worker/worker.h"

#include <algorithm>

namespace atp {

Worker::Worker(const WorkerConfig& config)
    : config_(config), random_(config.seed), events_(config.max_operations) {
  ATP_CHECK(!config.route.empty());
  ATP_CHECK(config.rank < config.world_size && config.world_size <= kMaxRanks);
  ATP_CHECK(config.stream_count >= 1);
}

void Worker::start(Instant now) {
  ATP_CHECK(state_ == State::kIdle);
  state_ = State::kJoining;
  started_ = now;
  server_heard_ = now;
  tree_join_.restart(now, config_.timing);
  straight_join_.restart(now, config_.timing);
}

std::optional<OperationId> Worker::submit(Instant now, const OperationSpec& spec) {
  if (state_ != State::kJoined || open_operations_ >= config_.max_operations) return std::nullopt;
  // A tensor goes to the stream with the fewest bytes so far, ties to the lowest (paper §4).
  Stream& stream = *std::min_element(
      streams_.begin(), streams_.end(),
      [](const Stream& a, const Stream& b) { return a.values_assigned < b.values_assigned; });
  // Operations that ended before an older one still have their places. All workers wait for the
  // same stream, as which one it is depends on the operations alone.
  if (stream.operations.full()) return std::nullopt;
  Operation operation;
  operation.id = next_operation_++;
  operation.spec = spec;
  operation.fragments = (spec.count + agreed_.value_count - 1) / agreed_.value_count;
  operation.unanswered = operation.fragments;
  ++open_operations_;
  if (operation.fragments == 0) {
    counters_.add(WorkerCounter::kOperationsCompleted);
    events_.push({.kind = EventKind::kCompleted, .operation = operation.id});
    return operation.id;
  }
  if (agreed_.scale_mode == ScaleMode::kFixed) {
    operation.settle(agreed_.scale, now);
  } else {
    operation.turn = scales_.submit(spec);
  }
  operation.first_sequence = stream.window.extend(operation.fragments);
  stream.values_assigned += spec.count;
  stream.operations.push_back(operation);
  return operation.id;
}

void Worker::leave(Instant now) {
  if (state_ == State::kLeaving || state_ == State::kLeft) return;
  if (state_ == State::kJoined) fail({.code = FailureCode::kLeft, .endpoint = server()});
  tree_join_.stop();
  straight_join_.stop();
  if (!is_member()) {
    state_ = State::kLeft;
    events_.push({.kind = EventKind::kLeft});
    return;
  }
  state_ = State::kLeaving;
  left_by_ = now + lease();
  leave_.restart(now, config_.timing);
}

std::optional<Event> Worker::poll_event() {
  std::optional<Event> event = events_.pop();
  if (event && event->operation != kNoOperation &&
      (event->kind == EventKind::kCompleted || event->kind == EventKind::kFailed)) {
    --open_operations_;
  }
  return event;
}

bool Worker::has_pending() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const Stream& s) { return !s.operations.empty(); });
}

Stream* Worker::stream_of(std::uint16_t id) {
  const std::size_t i = static_cast<std::size_t>(id) - config_.first_stream;
  return id >= config_.first_stream && i < streams_.size() ? &streams_[i] : nullptr;
}

void Worker::complete(Stream& stream, Operation& operation) {
  if (agreed_.scale_mode == ScaleMode::kAutomatic) {
    scales_.complete(operation.turn, operation.magnitude);
  }
  counters_.add(WorkerCounter::kOperationsCompleted);
  events_.push({.kind = EventKind::kCompleted, .operation = operation.id});
  while (!stream.operations.empty() && stream.operations.front().unanswered == 0) {
    stream.operations.pop_front();
  }
}

void Worker::fail(const Failure& failure) {
  if (state_ == State::kFailed || state_ == State::kLeaving || state_ == State::kLeft) return;
  state_ = State::kFailed;
  failure_ = failure;
  tree_join_.stop();
  straight_join_.stop();
  bool told = false;
  for (Stream& stream : streams_) {
    for (std::size_t i = 0; i < stream.operations.size(); ++i) {
      const Operation& operation = stream.operations[i];
      if (operation.unanswered == 0) continue;
      counters_.add(WorkerCounter::kOperationsFailed);
      events_.push({.kind = EventKind::kFailed, .operation = operation.id, .failure = failure});
      told = true;
    }
    while (!stream.operations.empty()) stream.operations.pop_front();
    stream.timer = stream.follow = kNever;
    stream.pacer.stop();
  }
  if (!told) {
    events_.push({.kind = EventKind::kFailed, .operation = kNoOperation, .failure = failure});
  }
}

void Worker::check_deadlines(Instant now) {
  for (const Stream& stream : streams_) {
    if (now < stream.deadline()) continue;
    fail({.code = FailureCode::kNoProgress, .ranks = missing_, .endpoint = server()});
    return;
  }
}

void Worker::handle_timeout(Instant now, Tensors& tensors, Outbox& out) {
  check_membership(now, out);
  if (state_ != State::kJoined) return;
  check_deadlines(now);
  for (Stream& stream : streams_) {
    if (state_ == State::kJoined && now >= stream.due()) {
      handle_stream_timer(now, stream, tensors, out);
    }
  }
}

Instant Worker::next_timeout() const {
  Instant next = std::min({tree_join_.next(), straight_join_.next(), leave_.next(), left_by_});
  next = std::min(next, tree_lease_end());
  if (state_ == State::kJoining) next = std::min(next, started_ + config_.join_timeout);
  if (state_ != State::kJoined) return next;
  next = std::min(next, server_heard_ + lease());
  for (const Stream& stream : streams_) {
    next = std::min({next, stream.due(), stream.deadline()});
  }
  return next;
}

}  // namespace atp
