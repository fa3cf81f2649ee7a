// What comes down: PARAMETER, NACK, STATUS and JOIN_ACK (docs/protocol.md §5).
#include <algorithm>

#include "atp/core/worker/worker.h"

namespace atp {

void Worker::handle_packet(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                           Tensors& tensors, Outbox& out) {
  const ParsedPacket parsed = parse_packet(bytes);
  if (!parsed.ok()) {
    counters_.add(worker_counter_of(parsed.error()));
    return;
  }
  const PacketView& packet = parsed.view();
  if (from != parent() && from != server()) {
    counters_.add(WorkerCounter::kDropWrongSource);
    return;
  }
  if (packet.job() != config_.job) {
    counters_.add(WorkerCounter::kDropWrongJob);
    return;
  }
  if (!packet.ranks.contains(config_.rank)) {
    counters_.add(WorkerCounter::kDropNotAddressed);
    return;
  }
  // With no switch in between both paths end at the server, and the mark DIRECT tells them apart.
  const Path path =
      from == parent() && !packet.has(ATP_FLAG_DIRECT) ? Path::kTree : Path::kStraight;
  switch (packet.type()) {
    case PacketType::kParameter: handle_parameter(now, packet, tensors, out); break;
    case PacketType::kNack: handle_nack(now, packet, tensors, out); break;
    case PacketType::kStatus: handle_status(now, path, packet); break;
    case PacketType::kJoinAck:
      server_heard_ = now;
      server_unreachable_ = false;
      if (path == Path::kTree) tree_heard_ = now;
      if (state_ == State::kJoining || state_ == State::kJoined) handle_join_ack(now, path, packet);
      break;
    case PacketType::kFlush:
      break;  // meant for switches; the last one on the way delivers it all the same
    default: counters_.add(WorkerCounter::kDropWrongDirection);
  }
}

Stream* Worker::find_in_flight(const PacketView& packet) {
  if (state_ != State::kJoined) {
    counters_.add(WorkerCounter::kDropNotJoined);
    return nullptr;
  }
  Stream* stream = stream_of(packet.header.stream);
  if (stream == nullptr) {
    counters_.add(WorkerCounter::kDropWrongStream);
    return nullptr;
  }
  const std::uint64_t sequence = packet.header.sequence;
  if (sequence >= stream->window.next()) {
    counters_.add(WorkerCounter::kDropUnsentSequence);
    return nullptr;
  }
  if (!stream->window.in_flight(sequence)) {
    counters_.add(WorkerCounter::kParametersDuplicate);
    return nullptr;
  }
  if (stream->operations.find(sequence).fingerprint != packet.header.operation) {
    counters_.add(WorkerCounter::kDropWrongOperation);
    return nullptr;
  }
  return stream;
}

void Worker::handle_parameter(Instant now, const PacketView& packet, Tensors& tensors,
                              Outbox& out) {
  server_heard_ = now;
  if (packet.header.value_count != agreed_.value_count && state_ == State::kJoined) {
    counters_.add(WorkerCounter::kDropBadValueCount);
    return;
  }
  Stream* stream = find_in_flight(packet);
  if (stream == nullptr) return;
  accept_parameter(now, *stream, packet, tensors);
  infer_loss(now, *stream, tensors, out);
}

void Worker::accept_parameter(Instant now, Stream& stream, const PacketView& packet,
                              Tensors& tensors) {
  const std::uint64_t sequence = packet.header.sequence;
  const SentFragment fragment = stream.window.at(sequence);
  Operation& operation = stream.operations.find(sequence);
  write_values(operation, packet, tensors);
  operation.magnitude = std::max(operation.magnitude, magnitude_of(operation, packet));

  counters_.add(WorkerCounter::kParametersReceived);
  counters_.add(WorkerCounter::kParameterBytesReceived, packet.bytes.size());
  if (packet.has(ATP_FLAG_FLOAT)) counters_.add(WorkerCounter::kParametersFloat);
  if (fragment.proactive && !packet.has(ATP_FLAG_FLOAT)) {
    counters_.add(WorkerCounter::kProactiveFalsePositives);
  }
  if (packet.has(ATP_FLAG_COLLISION)) counters_.add(WorkerCounter::kParametersCollided);
  if (packet.has(ATP_FLAG_ECN)) counters_.add(WorkerCounter::kParametersEcn);

  // The head of an operation waits for the peers' computing, so only what was sent after the first
  // answer is a sample, and of that only what was never repeated (Karn).
  const bool repeated = fragment.repeats > 0;
  if (!repeated && operation.first_answer <= fragment.first_sent) {
    rtt_.sample(now - fragment.first_sent);
  }
  if (operation.first_answer == kNever) operation.first_answer = now;

  const std::uint64_t packet_bytes = packet.bytes.size();
  in_flight_bytes_ -= std::min(in_flight_bytes_, packet_bytes);
  if (congestion_.on_answer(packet_bytes, packet.has(ATP_FLAG_ECN), held_back_)) {
    counters_.add(WorkerCounter::kWindowCutsEcn);
  }
  if (!fragment.direct_by_timer) attachment_.clear();
  missing_.clear();  // whoever was missing has come
  stream.indices.set_next(sequence, packet.header.next_index);
  stream.window.answer(sequence);
  stream.last_answer = now;
  stream.backoff = 0;
  // What a timer's repeats bring back was lost; a slow peer's answers are to first transmissions.
  if (repeated && stream.pacer.active() && !stream.pacer.paced_all()) take_loss();
  stream.pacer.answered(repeated);
  await_followers(now, stream, fragment);
  if (stream.window.idle()) {
    stream.timer = kNever;
  } else {
    arm_timer(now, stream);
  }
  if (--operation.unanswered == 0) complete(stream, operation);
}

// After an answered time-out the others outstanding follow, if for a round trip nothing comes that
// was not repeated: such an answer says that the timer was early, and nothing lost (F-RTO).
void Worker::await_followers(Instant now, Stream& stream, const SentFragment& answered) {
  if (answered.repeats == 0 || stream.window.idle()) {
    stream.follow = kNever;
  } else if (answered.by_timer && !stream.pacer.active() && stream.follow == kNever) {
    stream.follow = now + rtt_.smoothed() + reordering_tolerance();
  }
}

Duration Worker::reordering_tolerance() const {
  return std::max(config_.timing.reorder_min, rtt_.smoothed() / 4);
}

// In units of the scale. Of sums in float mode only the sums are known, and that something was
// beyond an int32; where NaN or ±Inf is among them, that may have been all that was.
double Worker::magnitude_of(const Operation& operation, const PacketView& packet) const {
  if (!packet.has(ATP_FLAG_FLOAT)) return packet.header.magnitude;
  const std::size_t length = operation.length(packet.header.sequence, agreed_.value_count);
  const FloatRange range = float_range(packet.body.data(), length);
  const double sums = double{range.largest} * config_.world_size * operation.scale;
  return range.all_finite ? std::max(sums, 0x1p31) : sums;
}

void Worker::write_values(const Operation& operation, const PacketView& packet, Tensors& tensors) {
  const std::size_t k = agreed_.value_count;
  const std::uint64_t sequence = packet.header.sequence;
  const std::span<float> place =
      tensors.output(operation.id)
          .subspan(operation.offset(sequence, k), operation.length(sequence, k));
  const double divisor = operation.spec.reduction == Reduction::kAverage ? config_.world_size : 1.0;
  if (packet.has(ATP_FLAG_FLOAT)) {
    read_floats(packet.body.data(), divisor, place);
  } else {
    dequantize(packet.body.data(), operation.scale, divisor, place);
  }
}

void Worker::take_loss() {
  if (congestion_.on_congestion()) counters_.add(WorkerCounter::kWindowCutsLoss);
}

// Three later answers mean a loss, of a whole train perhaps: so all that they overtook is repeated,
// at the pace of the answers, and the oldest again once that repeat must have been lost too.
void Worker::infer_loss(Instant now, Stream& stream, Tensors& tensors, Outbox& out) {
  if (state_ != State::kJoined) return;
  for (int credit = 2; credit > 0; --credit) {
    const auto overtaken = stream.window.next_overtaken();
    if (!overtaken || !hasten(now, stream, *overtaken, tensors, out)) break;
  }
  const std::uint64_t oldest = stream.window.base();
  if (stream.window.idle() || !stream.window.at(oldest).hastened) return;
  if (now - stream.window.at(oldest).last_sent < rtt_.rto(config_.timing)) return;
  hasten(now, stream, oldest, tensors, out);
}

bool Worker::hasten(Instant now, Stream& stream, std::uint64_t sequence, Tensors& tensors,
                    Outbox& out) {
  // What was summed in the switch overtakes what collided there, so it must also be later than
  // reordering explains (H15).
  SentFragment& fragment = stream.window.at(sequence);
  if (now - fragment.last_sent < rtt_.smoothed() + reordering_tolerance()) return false;
  if (!repeat(now, stream, sequence, 0, false, tensors, out)) return false;
  fragment.hastened = true;
  counters_.add(WorkerCounter::kLossesInferred);
  take_loss();
  return true;
}

// The others have passed the switches with what the server asks for, so what this rank sends of it
// later must not wait for them in an aggregator.
void Worker::note_asked(const PacketView& packet) {
  Stream* stream = state_ == State::kJoined ? stream_of(packet.header.stream) : nullptr;
  if (stream == nullptr) return;
  const std::uint64_t sequence = packet.header.sequence;
  const std::uint64_t next = stream->window.next();
  if (sequence < next || sequence - next >= stream->window.wmax()) return;
  stream->asked_end = std::max(stream->asked_end, sequence + 1);
}

void Worker::handle_nack(Instant now, const PacketView& packet, Tensors& tensors, Outbox& out) {
  counters_.add(WorkerCounter::kNacksReceived);
  server_heard_ = now;
  note_asked(packet);
  Stream* stream = find_in_flight(packet);
  if (stream == nullptr) return;
  if (packet.has(ATP_FLAG_FLOAT)) stream->window.at(packet.header.sequence).float_mode = true;
  // The server misses what this rank has sent; overlaps and floats it asks for in other words.
  if (!packet.has(ATP_FLAG_DIRECT) && !packet.has(ATP_FLAG_FLOAT)) take_loss();
  const std::uint8_t least = packet.has(ATP_FLAG_DIRECT) ? 3 : 0;
  repeat(now, *stream, packet.header.sequence, least, false, tensors, out);
}

void Worker::handle_status(Instant now, Path path, const PacketView& packet) {
  const std::optional<StatusMessage> read =
      StatusMessage::read(packet.body, packet.header.bitmap_words);
  if (!read) {
    counters_.add(WorkerCounter::kDropBadBody);
    return;
  }
  const StatusMessage& status = *read;
  const RankSet self = RankSet::of(config_.rank);
  switch (status.code) {
    case StatusCode::kWaitingFor:
      counters_.add(WorkerCounter::kWaitingForReceived);
      server_heard_ = now;
      if (path == Path::kTree) tree_heard_ = now;
      missing_ = status.about;
      attachment_.excuse();
      break;
    case StatusCode::kOperationMismatch: handle_mismatch(packet, status); break;
    case StatusCode::kUnknownJob:
      counters_.add(WorkerCounter::kUnknownJobReceived);
      if (status.about.contains(self) && state_ == State::kJoined) rejoin(now);
      break;
    case StatusCode::kRankTaken:
    case StatusCode::kRefused: handle_answer_to_join(now, path, status); break;
    case StatusCode::kLeaseEnded:
      if (!is_meant(status)) break;
      fail({.code = FailureCode::kRankLost, .ranks = status.about, .endpoint = server()});
      break;
    case StatusCode::kLeft:
      if (state_ == State::kLeaving && status.nonce == config_.nonce) {
        state_ = State::kLeft;
        leave_.stop();
        left_by_ = kNever;
        events_.push({.kind = EventKind::kLeft});
      } else if (status.nonce == 0 && has_pending()) {
        fail({.code = FailureCode::kRankLeft, .ranks = status.about, .endpoint = server()});
      }
      break;
    case StatusCode::kServerRestarted:
      if (!is_meant(status)) break;
      fail({.code = FailureCode::kServerRestarted, .endpoint = server()});
      break;
    case StatusCode::kVersions:
    case StatusCode::kDetached:
    case StatusCode::kCount: break;
  }
}

void Worker::handle_mismatch(const PacketView& packet, const StatusMessage& status) {
  if (state_ != State::kJoined) return;  // failed already: the operations are gone
  Stream* stream = stream_of(packet.header.stream);
  if (stream == nullptr || !stream->window.in_flight(packet.header.sequence)) return;
  const bool ours =
      stream->operations.find(packet.header.sequence).fingerprint == packet.header.operation;
  fail({.code = FailureCode::kOperationMismatch,
        .ranks = ours ? status.about : status.other,
        .other = ours ? status.other : status.about,
        .endpoint = server()});
}

// An answer to a JOIN carries its nonce; a twin behind the same switch hears it, too.
bool Worker::is_meant(const StatusMessage& status) {
  const bool meant = status.nonce == 0 || status.nonce == config_.nonce;
  if (!meant) counters_.add(WorkerCounter::kDropWrongNonce);
  return meant;
}

void Worker::handle_answer_to_join(Instant now, Path path, const StatusMessage& status) {
  if (!is_meant(status)) return;
  // A member that is refused on its way through the tree has a bad tree, not a bad membership: a
  // switch returned with a smaller K, a full table or another list of upstreams. The way around it
  // still serves.
  if (path == Path::kTree && has_switch() && (state_ == State::kJoined || !attached())) {
    detach(now);
    return;
  }
  Failure failure;
  failure.ranks = status.about;
  failure.endpoint = path == Path::kTree ? parent() : server();
  if (status.code == StatusCode::kRankTaken) {
    failure.code = FailureCode::kRankTaken;
    if (status.endpoint_count > 0) failure.endpoint = status.endpoints[0];
  } else {
    const Refusal refusal = status.refusal();
    failure.code = FailureCode::kRefused;
    failure.reason = refusal.reason;
    failure.expected = refusal.expected;
    failure.found = refusal.found;
    failure.other = refusal.holders;
  }
  fail(failure);
}

}  // namespace atp
