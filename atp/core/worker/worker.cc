// The application's calls to a worker, its events, and the timers.
#include "atp/core/worker/worker.h"

#include <algorithm>

namespace atp {

Worker::Worker(const WorkerConfig& config)
    : config_(config),
      clock_(config.timing, config.seed),
      next_operation_(config.first_operation),
      events_(config.max_operations) {
  ATP_CHECK(!config.route.empty());
  ATP_CHECK(config.rank < config.world_size && config.world_size <= kMaxRanks);
  ATP_CHECK(config.stream_count >= (config.number_format == NumberFormat::kFixed ? 1 : 2));
}

std::uint8_t Worker::kind_of(const OperationSpec& spec) const {
  if (!is_sum(spec.reduction)) return ATP_KIND_MAX_PLAIN;
  if (!is_floating(spec.type)) return ATP_KIND_SUM_PLAIN;
  if (!has_express()) return ATP_KIND_SUM_FIXED;
  if (spec.small || spec.format == NumberFormat::kExact) return ATP_KIND_SUM_EXACT;
  return spec.format == NumberFormat::kBlocksInt16 ? ATP_KIND_SUM_BLOCKS_INT16
                                                   : ATP_KIND_SUM_BLOCKS;
}

std::optional<OperationId> Worker::submit(Instant now, const OperationSpec& spec) {
  if (!joined() || open_operations_ >= config_.max_operations) return std::nullopt;
  // A tensor goes to the stream with the fewest values so far, the lowest if several have the
  // fewest (paper §4). A small one goes to the express stream.
  const auto value_streams_end = streams_.end() - (has_express() ? 1 : 0);
  Stream& stream = has_express() && spec.small
                       ? express()
                       : *std::min_element(streams_.begin(), value_streams_end,
                                           [](const Stream& a, const Stream& b) {
                                             return a.values_assigned < b.values_assigned;
                                           });
  Operation operation;
  operation.kind = kind_of(spec);
  ATP_CHECK(operation.kind != ATP_KIND_SUM_FIXED || spec.type == DataType::kFloat32);
  // Operations that ended before an older one still occupy their places. All workers wait for the
  // same stream, because the choice depends on the operations alone.
  if (stream.operations.full() || (operation.in_blocks() && express().operations.full())) {
    return std::nullopt;
  }
  operation.id = next_operation_++;
  operation.spec = spec;
  operation.fingerprint = operation_fingerprint(operation.id, spec, operation.kind);
  operation.began = now;
  ++open_operations_;
  if (spec.count == 0) {
    counters_.add(WorkerCounter::kOperationsCompleted);
    events_.push({.kind = EventKind::kCompleted, .operation = operation.id});
    return operation.id;
  }
  if (operation.in_blocks()) {
    Operation exponents = operation;
    exponents.part = OperationPart::kExponents;
    exponents.kind = ATP_KIND_EXPONENTS;
    exponents.lanes =
        spec.blocks > 0 ? spec.blocks : (spec.count + kBlockValues - 1) / kBlockValues;
    exponents.values_due = stream.window.end();
    exponents.value_stream = static_cast<std::size_t>(&stream - streams_.data());
    enqueue(express(), exponents);
    operation.first_exponents = exponents.first_sequence;
    operation.began = kNever;
  }
  operation.lanes = spec.count;
  enqueue(stream, operation);
  if (has_express() && spec.small) ++open_small_;
  stream.values_assigned += spec.count;
  judge_mismatch();
  return operation.id;
}

void Worker::enqueue(Stream& stream, Operation& operation) {
  operation.per_fragment = atp_most_values(operation.kind, agreed().value_count);
  operation.fragments = (operation.lanes + operation.per_fragment - 1) / operation.per_fragment;
  operation.unanswered = operation.fragments;
  operation.first_sequence = stream.window.extend(operation.fragments);
  stream.operations.push_back(operation);
  stream.ends_by = std::min(stream.ends_by, operation.spec.ends_by);
}

std::optional<OperationId> Worker::asked_about() const {
  if (!asked_about_any_) return std::nullopt;
  for (const Stream& stream : streams_) {
    if (stream.question && stream.question->answer.empty()) return stream.question->operation;
  }
  return std::nullopt;
}

void Worker::describe(OperationId id, std::string_view text) {
  for (Stream& stream : streams_) {
    if (!stream.question || stream.question->operation != id) continue;
    stream.question->answer = CauseText(text);
    if (text.empty()) stream.question.reset();
  }
}

void Worker::leave(Instant now, std::string_view cause) {
  if (membership_.leaving()) return;
  if (joined()) stop();
  if (!membership_.leave(now, config_, cause)) events_.push({.kind = EventKind::kLeft});
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
  if (operation.part == OperationPart::kValues) {
    counters_.add(WorkerCounter::kOperationsCompleted);
    events_.push({.kind = EventKind::kCompleted, .operation = operation.id});
    if (has_express() && operation.spec.small) --open_small_;
  }
  while (!stream.operations.empty() && stream.operations.front().unanswered == 0) {
    const Instant ended = stream.operations.front().spec.ends_by;
    stream.operations.pop_front();
    if (ended != kNever && ended == stream.ends_by) {
      const Operation* urgent = stream.operations.most_urgent();
      stream.ends_by = urgent == nullptr ? kNever : urgent->spec.ends_by;
    }
  }
}

// The others may disagree about a fragment before this rank has submitted its operation.
void Worker::judge_mismatch() {
  if (!mismatch_) return;
  Stream& stream = *stream_of(mismatch_->stream);
  if (mismatch_->sequence >= stream.window.end()) return;
  const bool ours = stream.operations.find(mismatch_->sequence).fingerprint == mismatch_->operation;
  const RankSet self = RankSet::of(config_.rank);
  fail({.code = FailureCode::kOperationMismatch,
        .ranks = self | (ours ? mismatch_->about : mismatch_->other),
        .other = (ours ? mismatch_->other : mismatch_->about) - self,
        .endpoint = server()});
}

void Worker::apply(const MembershipChange& change) {
  if (change.new_path) {
    for (Stream& stream : streams_) stream.recovery.repeat_all(stream.window);
  }
  if (change.agreed) make_streams();
  if (change.failure) fail(*change.failure);
}

// Ranks that fail because of a mismatch leave, or let their leases end. It is the cause, even if
// this rank has not submitted the operation.
Failure Worker::cause_of(const Failure& failure) const {
  const bool is_effect =
      failure.code == FailureCode::kRankLeft || failure.code == FailureCode::kRankLost ||
      failure.code == FailureCode::kNoProgress || failure.code == FailureCode::kOverdue;
  if (!mismatch_ || !is_effect) return failure;
  const bool is_other = mismatch_->other.contains(config_.rank);
  return {.code = FailureCode::kOperationMismatch,
          .ranks = is_other ? mismatch_->other : mismatch_->about,
          .other = is_other ? mismatch_->about : mismatch_->other,
          .endpoint = server()};
}

void Worker::make_streams() {
  const std::uint64_t packet_bytes = atp_packet_bytes(bitmap_words_for(config_.world_size),
                                                      ATP_KIND_SUM_PLAIN, agreed().value_count);
  congestion_ =
      CongestionWindow(config_.congestion, packet_bytes,
                       packet_bytes * agreed().wmax * config_.stream_count, config_.servers);
  if (config_.room) {
    room_ = AggregatorRoom(std::uint64_t{agreed().wmax} * config_.stream_count, config_.servers);
  }
  streams_.reserve(config_.stream_count);
  for (std::uint32_t i = 0; i < config_.stream_count; ++i) {
    const auto id = static_cast<std::uint16_t>(config_.first_stream + i);
    streams_.emplace_back(Placement{agreed().linear_aggregators}, config_.job, id, agreed().wmax,
                          config_.first_sequence, config_.max_operations);
  }
  events_.push({.kind = EventKind::kJoined});
}

void Worker::fail(const Failure& noticed) {
  if (!membership_.fail()) return;
  const Failure failure = cause_of(noticed);
  bool reported = false;
  for (Stream& stream : streams_) {
    for (std::size_t i = 0; i < stream.operations.size(); ++i) {
      const Operation& operation = stream.operations[i];
      if (operation.unanswered == 0 || operation.part == OperationPart::kExponents) continue;
      counters_.add(WorkerCounter::kOperationsFailed);
      events_.push({.kind = EventKind::kFailed, .operation = operation.id, .failure = failure});
      reported = true;
    }
    while (!stream.operations.empty()) stream.operations.pop_front();
    stream.ends_by = kNever;
    stream.recovery.stop();
  }
  if (!reported) {
    events_.push({.kind = EventKind::kFailed, .operation = kNoOperation, .failure = failure});
  }
}

void Worker::check_deadlines(Instant now) {
  for (const Stream& stream : streams_) {
    Failure failure{.ranks = membership_.missing(), .endpoint = server()};
    if (now >= stream.ends_by) {
      failure.code = FailureCode::kOverdue;
      failure.time_out = stream.operations.most_urgent()->spec.timeout;
    } else if (now < stream.deadline()) {
      continue;
    }
    return fail(failure);
  }
}

void Worker::handle_timeout(Instant now, Tensors& tensors, Outbox& out) {
  WorkerTurn turn = begin_turn(now, tensors, out);
  apply(membership_.handle_timeout(turn));
  if (!joined()) return;
  check_deadlines(now);
  for (Stream& stream : streams_) {
    if (joined() && now >= stream.recovery.due()) handle_stream_timer(turn, stream);
  }
}

Instant Worker::next_timeout() const {
  Instant next = membership_.next_timeout(config_);
  if (!joined()) return next;
  for (const Stream& stream : streams_) {
    next = std::min({next, stream.recovery.due(), stream.deadline(), stream.ends_by});
  }
  return next;
}

}  // namespace atp
