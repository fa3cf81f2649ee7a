// Handles downward packets: PARAMETER, NACK, STATUS and JOIN_ACK (docs/inside/protocol §5).
#include <algorithm>

#include "atp/core/worker/worker.h"

namespace atp {
namespace {

// Only these kinds may be summed as floats.
bool may_be_floats(std::uint8_t kind) {
  return kind == ATP_KIND_SUM_FIXED || kind == ATP_KIND_SUM_EXACT;
}

}  // namespace

void Worker::handle_packet(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                           Tensors& tensors, Outbox& out) {
  WorkerTurn turn = begin_turn(now, tensors, out);
  const ParsedPacket parsed = parse_packet(bytes);
  if (!parsed.ok()) {
    turn.count(worker_counter_of(parsed.error()));
    if (parsed.error() == ParseError::kUnknownVersion) {
      apply(membership_.handle_other_version(turn, from, bytes[ATP_AT_VERSION]));
    }
    return;
  }
  const PacketView& packet = parsed.view();
  if (from != parent() && from != server()) return turn.count(WorkerCounter::kDropWrongSource);
  if (packet.job() != config_.job) return turn.count(WorkerCounter::kDropWrongJob);
  if (!packet.ranks.contains(config_.rank)) return turn.count(WorkerCounter::kDropNotAddressed);
  // Without a switch both paths come from the server, and the flag DIRECT tells them apart.
  const Path path =
      from == parent() && !packet.has(ATP_FLAG_DIRECT) ? Path::kTree : Path::kStraight;
  switch (packet.type()) {
    case PacketType::kParameter: return handle_parameter(turn, path, packet);
    case PacketType::kNack: return handle_nack(turn, path, packet);
    case PacketType::kStatus: return handle_status(turn, path, packet);
    case PacketType::kJoinAck: return apply(membership_.handle_join_ack(turn, path, packet));
    case PacketType::kFlush: return turn.count(WorkerCounter::kFlushesReceived);
    default: return turn.count(WorkerCounter::kDropWrongDirection);
  }
}

void Worker::handle_unreachable(Instant now, const Endpoint& whom, Tensors& tensors, Outbox& out) {
  WorkerTurn turn = begin_turn(now, tensors, out);
  turn.count(WorkerCounter::kUnreachable);
  apply(membership_.handle_unreachable(turn, whom));
  transmit(turn);
}

Stream* Worker::find_in_flight(const PacketView& packet) {
  if (!joined()) {
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
  // A server that has seen nothing of the fragment sends a NACK without an operation.
  const bool names_none = packet.type() == PacketType::kNack && packet.header.operation == 0;
  if (!names_none && stream->operations.find(sequence).fingerprint != packet.header.operation) {
    counters_.add(WorkerCounter::kDropWrongOperation);
    return nullptr;
  }
  return stream;
}

void Worker::handle_parameter(WorkerTurn& turn, Path path, const PacketView& packet) {
  membership_.hear_server(turn, path);
  Stream* stream = find_in_flight(packet);
  if (stream == nullptr) return;
  const std::uint64_t sequence = packet.header.sequence;
  const FragmentShape shape =
      values().shape(stream->operations.find(sequence), sequence, turn.tensors);
  const bool is_shape = shape == FragmentShape{packet.header.kind, packet.header.value_count};
  if (!is_shape || (packet.has(ATP_FLAG_FLOAT) && !may_be_floats(shape.kind))) {
    return turn.count(WorkerCounter::kDropWrongShape);
  }
  accept_parameter(turn, *stream, packet);
  if (!config_.tolerance) {
    if (stream->recovery.oldest_is_missed(stream->window)) {
      repeat_early(turn, *stream, stream->window.base());
    }
    return;
  }
  // Repeat at the pace of the answers: two per answer, and the oldest once more.
  repeat_overtaken(turn, *stream, 2);
}

void Worker::accept_parameter(WorkerTurn& turn, Stream& stream, const PacketView& packet) {
  const std::uint64_t sequence = packet.header.sequence;
  const SentFragment fragment = stream.window.at(sequence);
  Operation& operation = stream.operations.find(sequence);
  values().read(operation, sequence, packet.header.kind, packet.has(ATP_FLAG_FLOAT),
                packet.body.data(), turn.tensors);
  count_parameter(packet, fragment);

  // The first fragments of an operation wait for peers that still compute. So only a fragment that
  // was sent after the operation's first answer, and never repeated (Karn), is a sample. An earlier
  // one is an upper bound, which is all that short operations give.
  if (fragment.rung == Rung::kNone && operation.first_answer <= fragment.first_sent) {
    clock_.sample(turn.now - fragment.first_sent);
    capacity_.on_round_trip(turn.now, turn.now - fragment.first_sent);
  } else if (fragment.rung == Rung::kNone) {
    clock_.bound(turn.now - fragment.first_sent);
  }
  if (operation.first_answer == kNever) operation.first_answer = turn.now;

  const std::uint64_t packet_bytes = packet.bytes.size();
  in_flight_bytes_ -= std::min(in_flight_bytes_, packet_bytes);
  capacity_.on_answer(turn.now, packet_bytes);
  if (congestion_.on_answer(packet_bytes, packet.has(ATP_FLAG_ECN), held_back_)) {
    turn.count(WorkerCounter::kWindowCutsEcn);
  }
  membership_.on_answer(turn);
  stream.indices.set_next(sequence, packet.header.next_index);
  stream.window.answer(sequence);
  room_.on_part(packet.part());
  if (room_.on_answer(packet.has(ATP_FLAG_COLLISION), [this] { return in_flight(); })) {
    turn.count(WorkerCounter::kRoomCuts);
  }
  stream.last_progress = turn.now;
  if (stream.recovery.on_answer(turn.now, fragment, stream.window, clock_)) {
    notice_loss(turn.now);
  }
  if (--operation.unanswered == 0) complete(stream, operation);
}

void Worker::count_parameter(const PacketView& packet, const SentFragment& fragment) {
  counters_.add(WorkerCounter::kParametersReceived);
  counters_.add(WorkerCounter::kParameterBytesReceived, packet.bytes.size());
  if (packet.has(ATP_FLAG_FLOAT)) counters_.add(WorkerCounter::kParametersFloat);
  if (fragment.proactive && !packet.has(ATP_FLAG_FLOAT)) {
    counters_.add(WorkerCounter::kProactiveFalsePositives);
  }
  if (packet.has(ATP_FLAG_COLLISION)) counters_.add(WorkerCounter::kParametersCollided);
  if (packet.has(ATP_FLAG_ECN)) counters_.add(WorkerCounter::kParametersEcn);
}

// The other ranks' contributions have already passed the switches, so this rank's must not wait for
// them in an aggregator when it is sent later.
void Worker::note_asked(const PacketView& packet) {
  Stream* stream = joined() ? stream_of(packet.header.stream) : nullptr;
  if (stream == nullptr) return;
  const std::uint64_t sequence = packet.header.sequence;
  const std::uint64_t next = stream->window.next();
  if (sequence < next || sequence - next >= stream->window.wmax()) return;
  stream->asked_end = std::max(stream->asked_end, sequence + 1);
}

void Worker::handle_nack(WorkerTurn& turn, Path path, const PacketView& packet) {
  turn.count(WorkerCounter::kNacksReceived);
  membership_.hear_server(turn, path);
  note_asked(packet);
  Stream* stream = find_in_flight(packet);
  if (stream == nullptr) return;
  const std::uint64_t sequence = packet.header.sequence;
  const bool is_plain = !packet.has(ATP_FLAG_DIRECT) && !packet.has(ATP_FLAG_FLOAT);
  if (is_plain &&
      stream->recovery.may_be_under_way(turn.now, stream->window.at(sequence), clock_)) {
    return turn.count(WorkerCounter::kNacksEarly);
  }
  if (packet.has(ATP_FLAG_FLOAT) && may_be_floats(stream->operations.find(sequence).kind)) {
    stream->window.at(sequence).float_mode = true;
  }
  // A plain NACK means that this rank's packet was lost; NACKs for overlaps and floats have a flag.
  if (is_plain) cut_window_for_loss();
  const Rung least = packet.has(ATP_FLAG_DIRECT) ? Rung::kDirect : Rung::kNone;
  repeat(turn, *stream, sequence, least, Cause::kAsked);
}

void Worker::handle_status(WorkerTurn& turn, Path path, const PacketView& packet) {
  const std::optional<StatusMessage> status = StatusMessage::read(packet);
  if (!status) return turn.count(WorkerCounter::kDropBadBody);
  const unsigned number = unsigned{packet.header.stream} - config_.first_stream;
  if (status->code != StatusCode::kVersions && number >= config_.stream_count) {
    return turn.count(WorkerCounter::kDropWrongStream);  // it is for another socket of the rank
  }
  if (status->code == StatusCode::kOperationMismatch) return handle_mismatch(turn, packet, *status);
  if (status->code == StatusCode::kWaitingFor) note_question(packet, *status);
  apply(membership_.handle_status(turn, path, packet, *status, has_pending()));
}

// A server that knows the operation's description repeats it in its announcements.
void Worker::note_question(const PacketView& packet, const StatusMessage& status) {
  const atp_header& h = packet.header;
  Stream* stream = joined() ? stream_of(h.stream) : nullptr;
  if (stream == nullptr || packet.has(ATP_FLAG_DIRECT) || !status.cause.empty()) return;
  if (status.about.contains(config_.rank)) return;  // its contribution may be another one
  const Operation* operation = stream->operations.with_fingerprint(h.operation);
  if (operation == nullptr) return;
  stream->question = Question{.head = {.type = PacketType::kStatus,
                                       .flags = ATP_FLAG_DIRECT,
                                       .bitmap_words = h.bitmap_words,
                                       .job = config_.job,
                                       .stream = h.stream,
                                       .sequence = h.sequence,
                                       .operation = h.operation},
                              .operation = operation->id,
                              .answer = {}};
  asked_about_any_ = true;
}

void Worker::handle_mismatch(WorkerTurn& turn, const PacketView& packet,
                             const StatusMessage& status) {
  if (!joined()) return turn.count(WorkerCounter::kDropNotJoined);  // no operations are left
  const Stream* stream = stream_of(packet.header.stream);
  if (stream == nullptr) return turn.count(WorkerCounter::kDropWrongStream);
  const std::uint64_t sequence = packet.header.sequence;
  const bool is_to_come = sequence >= stream->window.next();
  if (!is_to_come && !stream->window.in_flight(sequence)) {
    return turn.count(WorkerCounter::kStatusIgnored);
  }
  mismatch_ = {.stream = packet.header.stream,
               .sequence = sequence,
               .operation = packet.header.operation,
               .about = status.about,
               .other = status.other};
  judge_mismatch();
  if (status.reason == StatusMessage::kSomeAreGone && has_pending()) {
    fail({.code = FailureCode::kRankLeft, .endpoint = server()});  // with the mismatch as its cause
  }
}

}  // namespace atp
