// First transmissions and repeats (docs/inside/protocol §5, *Order* and *Loss*).
#include <numeric>

#include "atp/core/worker/worker.h"

namespace atp {

std::optional<std::uint8_t> Worker::put_gradient(WorkerTurn& turn, const Stream& stream,
                                                 const Operation& operation,
                                                 const FragmentShape& shape, std::uint64_t sequence,
                                                 std::uint8_t flags, const Endpoint& to) {
  atp_header h{};
  h.version = ATP_VERSION;
  h.type = ATP_GRADIENT;
  h.flags = flags;
  h.bitmap_words = bitmap_words_for(config_.world_size);
  h.job = config_.job.job;
  h.incarnation = config_.job.incarnation;
  h.tenant = config_.job.tenant;
  h.stream = stream.id;
  h.value_count = shape.value_count;
  h.sequence = sequence;
  h.aggregator_index = stream.indices.at(sequence);
  h.operation = operation.fingerprint;
  h.kind = shape.kind;
  h.hops = ATP_HOPS;

  const std::span<std::uint8_t> bytes =
      turn.out.reserve(atp_packet_bytes(h.bitmap_words, h.kind, h.value_count));
  if (bytes.empty()) return std::nullopt;
  const Quantized quantized =
      values().write(operation, sequence, shape.kind, (flags & ATP_FLAG_FLOAT) != 0, turn.tensors,
                     bytes.data() + atp_body_offset(h.bitmap_words));
  h.magnitude = quantized.magnitude;
  if (quantized.overflow) h.flags |= ATP_FLAG_OVERFLOW;
  if (keeps_from_switches(quantized)) h.flags |= ATP_FLAG_DIRECT;
  write_packet_head(bytes.data(), h, RankSet::of(config_.rank));
  turn.out.send_to(to);
  turn.count(WorkerCounter::kGradientBytesSent, bytes.size());
  return h.flags;
}

// If all W contributions are at most a W-th of the range, no sum can overflow (paper §B.2).
bool Worker::keeps_from_switches(const Quantized& quantized) const {
  if (config_.overflow == OverflowPolicy::kReactive) return false;
  return quantized.overflow || quantized.magnitude > 0x7fffffffU / config_.world_size;
}

void Worker::poll_transmit(Instant now, Tensors& tensors, Outbox& out) {
  WorkerTurn turn = begin_turn(now, tensors, out);
  transmit(turn);
  if (asked_about_any_) tell_descriptions(turn);
}

// Descriptions go straight to the server, from which the switches learn them.
void Worker::tell_descriptions(WorkerTurn& turn) {
  asked_about_any_ = false;
  for (Stream& stream : streams_) {
    if (!joined()) stream.question.reset();
    if (!stream.question) continue;
    asked_about_any_ = true;
    if (stream.question->answer.empty()) continue;
    StatusMessage message;
    message.code = StatusCode::kOperation;
    message.cause = stream.question->answer;
    if (!put_status(turn.out, stream.question->head, RankSet::of(config_.rank), message)) return;
    turn.out.send_to(server());
    turn.count(WorkerCounter::kDescriptionsSent);
    stream.question.reset();
  }
}

void Worker::transmit(WorkerTurn& turn) {
  if (!joined()) return;
  held_back_ = false;
  const auto serve = [&](Stream& stream) {
    if (stream.recovery.paces()) repeat_paced(turn, stream);
    send_new(turn, stream);
  };
  const std::size_t value_streams = streams_.size() - (has_express() ? 1 : 0);
  if (has_express()) serve(express());
  const auto after = [&](std::size_t i) { return i + 1 < value_streams ? i + 1 : 0; };
  std::size_t at = next_stream_;
  do {
    serve(streams_[at]);
    at = after(at);
  } while (at != next_stream_);
  next_stream_ = after(next_stream_);
}

// Values follow the exponents of their blocks: those are agreed if they lie below the oldest
// unanswered fragment of the express stream.
bool Worker::may_send_next(WorkerTurn& turn, Stream& stream) {
  const std::uint64_t sequence = stream.window.next();
  Operation& operation = stream.operations.find(sequence);
  if (operation.part == OperationPart::kExponents) {
    return open_small_ > 0 || values_are_near(turn, operation, sequence);
  }
  if (!operation.in_blocks()) return true;
  const std::size_t last = operation.offset(sequence) + operation.length(sequence) - 1;
  const std::size_t block = turn.tensors.layout(operation.id).block_at(last).block;
  const std::uint64_t needed =
      operation.first_exponents + block / atp_most_values(ATP_KIND_EXPONENTS, agreed().value_count);
  if (needed >= express().window.base()) return false;
  if (!operation.has_begun()) operation.began = turn.now;
  return true;
}

// Sending all exponents of a tensor first would take a pass over all of it while the link lies
// idle. But exponents queue behind values that were already sent, so they must be ahead by more
// than a window of those. Eight fragments of exponents cover 2,048 packets if values have 16 bits.
// (They are not held back while a small operation, which is more urgent, waits behind them.)
bool Worker::values_are_near(const WorkerTurn& turn, Operation& exponents, std::uint64_t sequence) {
  constexpr std::uint64_t kAhead = 8;
  const std::uint64_t number = sequence - exponents.first_sequence;
  if (number < kAhead) return true;
  Stream& stream = streams_[exponents.value_stream];
  const std::uint64_t next = stream.window.next();
  if (next < exponents.values_due) return false;
  const Operation& values = stream.operations.find(exponents.values_due);
  const std::size_t block = static_cast<std::size_t>(number - kAhead + 1) * exponents.per_fragment;
  const std::size_t begin = turn.tensors.layout(exponents.id).block(block).begin;
  exponents.values_due = values.first_sequence + begin / values.per_fragment;
  return next >= exponents.values_due;
}

std::uint64_t Worker::in_flight() const {
  return std::accumulate(
      streams_.begin(), streams_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const Stream& stream) { return sum + stream.window.unanswered(); });
}

void Worker::send_new(WorkerTurn& turn, Stream& stream) {
  const std::uint8_t words = bitmap_words_for(config_.world_size);
  // A stream may always have one fragment in flight. Otherwise workers with different windows or
  // rooms could fill them with different streams, and each would wait for fragments that the other
  // is not allowed to send.
  const auto fits = [&](const FragmentShape& shape) {
    return stream.window.idle() ||
           in_flight_bytes_ + atp_packet_bytes(words, shape.kind, shape.value_count) <=
               congestion_.bytes();
  };
  while (stream.window.may_send() && turn.out.has_room(1) && has_room(stream)) {
    if (!may_send_next(turn, stream)) return;
    const std::uint64_t sequence = stream.window.next();
    const Operation& operation = stream.operations.find(sequence);
    const FragmentShape shape = values().shape(operation, sequence, turn.tensors);
    if (!fits(shape)) {
      held_back_ = true;
      return;
    }
    if (!send_next(turn, stream, operation, shape)) return;
  }
}

bool Worker::send_next(WorkerTurn& turn, Stream& stream, const Operation& operation,
                       const FragmentShape& shape) {
  const std::uint64_t sequence = stream.window.next();
  const bool exact = shape.kind == ATP_KIND_SUM_EXACT;
  std::uint8_t flags = sequence < stream.asked_end ? ATP_FLAG_RESEND : 0;
  if (!attached()) flags = ATP_FLAG_DIRECT;
  // No switch may add floats.
  if (exact) flags = ATP_FLAG_FLOAT | ATP_FLAG_DIRECT;
  const Endpoint& to = exact || !attached() ? server() : parent();
  const auto sent = put_gradient(turn, stream, operation, shape, sequence, flags, to);
  if (!sent) return false;
  if (stream.window.idle()) {
    stream.recovery.start_timer(turn.now, clock_);
    stream.last_progress = turn.now;
  }
  SentFragment& fragment = stream.window.at(stream.window.send(turn.now));
  fragment.proactive = *sent != flags && (*sent & ATP_FLAG_DIRECT) != 0;
  fragment.exact = exact;
  fragment.float_mode = exact;
  fragment.went_straight = exact;
  if (fragment.proactive) turn.count(WorkerCounter::kProactiveFragments);
  room_.on_send();
  in_flight_bytes_ +=
      atp_packet_bytes(bitmap_words_for(config_.world_size), shape.kind, shape.value_count);
  turn.count(WorkerCounter::kGradientsSent);
  if ((flags & ATP_FLAG_DIRECT) != 0) turn.count(WorkerCounter::kGradientsDirect);
  return true;
}

bool Worker::repeat(WorkerTurn& turn, Stream& stream, std::uint64_t sequence, Rung least,
                    Cause cause) {
  if (!turn.out.has_room(1)) return false;
  SentFragment& fragment = stream.window.at(sequence);
  const bool was_repeated = fragment.rung != Rung::kNone;
  if (!config_.plain_repeats) least = std::max(least, Rung::kResend);
  const bool climbs = config_.plain_repeats && cause != Cause::kProbe;
  const Repeat how = next_repeat(fragment, least, attached(), climbs);
  const Operation& operation = stream.operations.find(sequence);
  const FragmentShape shape = values().shape(operation, sequence, turn.tensors);
  if (!put_gradient(turn, stream, operation, shape, sequence, how.flags,
                    how.straight ? server() : parent())) {
    return false;
  }
  turn.count(how.counter);
  turn.count(WorkerCounter::kRepeatBytesSent,
             atp_packet_bytes(bitmap_words_for(config_.world_size), shape.kind, shape.value_count));
  fragment.last_sent = turn.now;
  fragment.rung = how.rung;
  fragment.went_straight = how.straight;
  if (cause == Cause::kTimeout || cause == Cause::kProbe) fragment.by_timer = true;
  // A fragment that goes straight from the start says nothing about the tree.
  if (cause == Cause::kTimeout && was_repeated && !fragment.exact) {
    membership_.on_resend(turn);
  }
  return true;
}

void Worker::repeat_paced(WorkerTurn& turn, Stream& stream) {
  while (const auto sequence = stream.recovery.next_paced(stream.window)) {
    if (!repeat(turn, stream, *sequence, Rung::kNone, Cause::kLost)) return;
    stream.recovery.repeated_paced();
  }
}

void Worker::repeat_overtaken(WorkerTurn& turn, Stream& stream, int credit) {
  for (; credit > 0; --credit) {
    const auto lost = LossRecovery::next_overtaken(turn.now, stream.window, clock_);
    if (!lost || !repeat_early(turn, stream, *lost)) break;
  }
  const auto lost = LossRecovery::lost_again(turn.now, stream.window, clock_);
  if (lost) repeat_early(turn, stream, *lost);
  stream.recovery.await_overtaken(turn.now, stream.window, clock_);
}

bool Worker::repeat_early(WorkerTurn& turn, Stream& stream, std::uint64_t sequence) {
  if (!repeat(turn, stream, sequence, Rung::kNone, Cause::kLost)) return false;
  stream.window.at(sequence).repeated_early = true;
  turn.count(WorkerCounter::kLossesInferred);
  notice_loss(turn.now);
  return true;
}

void Worker::handle_stream_timer(WorkerTurn& turn, Stream& stream) {
  constexpr int kBatch = 8;
  const std::uint64_t oldest = stream.window.base();
  switch (stream.recovery.on_timer(turn.now, stream.window, clock_)) {
    case TimerAction::kTimeout:
      turn.count(WorkerCounter::kTimeouts);
      repeat(turn, stream, oldest, Rung::kPlain, Cause::kTimeout);
      return;
    case TimerAction::kProbe:
      turn.count(WorkerCounter::kProbes);
      repeat(turn, stream, oldest, Rung::kPlain, Cause::kProbe);
      return;
    case TimerAction::kOvertaken: return repeat_overtaken(turn, stream, kBatch);
    case TimerAction::kFollow: return;
  }
}

void Worker::notice_loss(Instant now) {
  if (config_.tolerance) clock_.saw_loss(now);
  cut_window_for_loss();
}

void Worker::cut_window_for_loss() {
  if (congestion_.on_loss(capacity_.bytes())) counters_.add(WorkerCounter::kWindowCutsLoss);
}

}  // namespace atp
