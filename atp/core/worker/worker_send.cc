// Transmissions and repeats (docs/protocol.md §5, *Order* and *Loss*).
#include <cstring>

#include "atp/core/worker/worker.h"

namespace atp {

std::optional<std::uint8_t> Worker::put_gradient(WorkerTurn& turn, Stream& stream,
                                                 std::uint64_t sequence, std::uint8_t flags,
                                                 const Endpoint& to) {
  const std::size_t k = agreed().value_count;
  const Operation& operation = stream.operations.find(sequence);
  const std::span<const float> values =
      turn.tensors.input(operation.id)
          .subspan(operation.offset(sequence, k), operation.length(sequence, k));

  atp_header h{};
  h.version = ATP_VERSION_1;
  h.type = ATP_GRADIENT;
  h.flags = flags;
  h.bitmap_words = bitmap_words_for(config_.world_size);
  h.job = config_.job.job;
  h.incarnation = config_.job.incarnation;
  h.stream = stream.id;
  h.value_count = agreed().value_count;
  h.sequence = sequence;
  h.aggregator_index = stream.indices.at(sequence);
  h.operation = operation.fingerprint;

  const std::span<std::uint8_t> bytes =
      turn.out.reserve(atp_packet_bytes(h.bitmap_words, h.value_count));
  if (bytes.empty()) return std::nullopt;
  std::uint8_t* at = bytes.data() + atp_body_offset(h.bitmap_words);
  if ((flags & ATP_FLAG_FLOAT) != 0) {
    write_floats(values, at);
  } else {
    const Quantized quantized = quantize(values, operation.scale, at);
    h.magnitude = quantized.magnitude;
    if (quantized.overflow) h.flags |= ATP_FLAG_OVERFLOW;
    if (keeps_from_switches(quantized)) h.flags |= ATP_FLAG_DIRECT;
  }
  std::memset(at + 4 * values.size(), 0, 4 * (k - values.size()));
  write_packet_head(bytes.data(), h, RankSet::of(config_.rank));
  turn.out.send_to(to);
  turn.count(WorkerCounter::kGradientBytesSent, bytes.size());
  return h.flags;
}

// With W contributions of at most a W-th of the range no sum can overflow (paper §B.2).
bool Worker::keeps_from_switches(const Quantized& quantized) const {
  if (config_.overflow == OverflowPolicy::kReactive) return false;
  return quantized.overflow || quantized.magnitude > 0x7fffffffU / config_.world_size;
}

void Worker::poll_transmit(Instant now, Tensors& tensors, Outbox& out) {
  WorkerTurn turn = begin_turn(now, tensors, out);
  transmit(turn);
}

void Worker::transmit(WorkerTurn& turn) {
  if (!joined()) return;
  held_back_ = false;
  const auto after = [&](std::size_t i) { return i + 1 < streams_.size() ? i + 1 : 0; };
  std::size_t at = next_stream_;
  do {
    if (streams_[at].recovery.paces()) repeat_paced(turn, streams_[at]);
    send_new(turn, streams_[at]);
    at = after(at);
  } while (at != next_stream_);
  next_stream_ = after(next_stream_);
}

bool Worker::settle_next(Instant now, Stream& stream) {
  Operation& operation = stream.operations.find(stream.window.next());
  if (operation.settled()) return true;
  const std::optional<double> scale = scales_.scale_of(operation.ticket);
  if (scale) operation.settle(*scale, now);
  return scale.has_value();
}

void Worker::send_new(WorkerTurn& turn, Stream& stream) {
  const std::uint8_t words = bitmap_words_for(config_.world_size);
  const std::uint64_t packet_bytes = atp_packet_bytes(words, agreed().value_count);
  const auto flags_now = [&]() -> std::uint8_t {
    if (!attached()) return ATP_FLAG_DIRECT;
    return stream.window.next() < stream.asked_end ? ATP_FLAG_RESEND : 0;
  };
  const Endpoint& to = attached() ? parent() : server();
  // A stream always has one fragment in flight: workers whose windows differ could otherwise fill
  // them with different streams, and each wait for what the other may not send.
  const auto fits = [&] {
    return stream.window.idle() || in_flight_bytes_ + packet_bytes <= congestion_.bytes();
  };
  while (stream.window.may_send() && turn.out.has_room(1)) {
    if (!fits()) {
      held_back_ = true;
      return;
    }
    if (!settle_next(turn.now, stream)) return;
    const std::uint8_t flags = flags_now();
    const auto sent = put_gradient(turn, stream, stream.window.next(), flags, to);
    if (!sent) return;
    if (stream.window.idle()) stream.recovery.start_timer(turn.now, clock_);
    SentFragment& fragment = stream.window.at(stream.window.send(turn.now));
    fragment.proactive = *sent != flags && (*sent & ATP_FLAG_DIRECT) != 0;
    if (fragment.proactive) turn.count(WorkerCounter::kProactiveFragments);
    in_flight_bytes_ += packet_bytes;
    turn.count(WorkerCounter::kGradientsSent);
    if ((flags & ATP_FLAG_DIRECT) != 0) turn.count(WorkerCounter::kGradientsDirect);
  }
}

bool Worker::repeat(WorkerTurn& turn, Stream& stream, std::uint64_t sequence, Rung least,
                    bool timer) {
  if (!turn.out.has_room(1)) return false;
  SentFragment& fragment = stream.window.at(sequence);
  const Repeat how = next_repeat(fragment, least, attached());
  if (!put_gradient(turn, stream, sequence, how.flags, how.straight ? server() : parent())) {
    return false;
  }
  turn.count(how.counter);
  fragment.last_sent = turn.now;
  fragment.rung = how.rung;
  if (timer) fragment.by_timer = true;
  if (timer && how.straight) {
    fragment.direct_by_timer = true;
    apply(membership_.on_direct_repeat(turn));
  }
  return true;
}

void Worker::repeat_paced(WorkerTurn& turn, Stream& stream) {
  while (const auto sequence = stream.recovery.next_paced(stream.window)) {
    if (!repeat(turn, stream, *sequence, Rung::kNone, false)) return;
    stream.recovery.repeated_paced();
  }
}

// At the pace of the answers: two for each, and the oldest once more.
void Worker::repeat_overtaken(WorkerTurn& turn, Stream& stream) {
  for (int credit = 2; credit > 0; --credit) {
    const auto lost = LossRecovery::next_overtaken(turn.now, stream.window, clock_);
    if (!lost || !repeat_early(turn, stream, *lost)) break;
  }
  const auto lost = LossRecovery::lost_again(turn.now, stream.window, clock_);
  if (lost) repeat_early(turn, stream, *lost);
}

bool Worker::repeat_early(WorkerTurn& turn, Stream& stream, std::uint64_t sequence) {
  if (!repeat(turn, stream, sequence, Rung::kNone, false)) return false;
  stream.window.at(sequence).repeated_early = true;
  turn.count(WorkerCounter::kLossesInferred);
  cut_window_for_loss();
  return true;
}

void Worker::handle_stream_timer(WorkerTurn& turn, Stream& stream) {
  if (!stream.recovery.on_timer(turn.now, stream.window, clock_)) return;
  turn.count(WorkerCounter::kTimeouts);
  repeat(turn, stream, stream.window.base(), Rung::kPlain, true);
}

void Worker::cut_window_for_loss() {
  if (congestion_.on_congestion()) counters_.add(WorkerCounter::kWindowCutsLoss);
}

}  // namespace atp
