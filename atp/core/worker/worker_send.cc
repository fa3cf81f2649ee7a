// Transmissions and repeats (docs/protocol.md §5, *Order* and *Loss*).
#include <algorithm>
#include <cstring>

#include "atp/core/worker/worker.h"

namespace atp {
namespace {

// The ladder of repeats of one fragment.
constexpr std::uint8_t kRungPlain = 1;
constexpr std::uint8_t kRungResend = 2;
constexpr std::uint8_t kRungDirect = 3;

}  // namespace

std::optional<std::uint8_t> Worker::put_gradient(Stream& stream, std::uint64_t sequence,
                                                 std::uint8_t flags, const Endpoint& to,
                                                 Tensors& tensors, Outbox& out) {
  const std::size_t k = agreed_.value_count;
  const Operation& operation = stream.operations.find(sequence);
  const std::span<const float> values =
      tensors.input(operation.id)
          .subspan(operation.offset(sequence, k), operation.length(sequence, k));

  atp_header h{};
  h.version = ATP_VERSION_1;
  h.type = ATP_GRADIENT;
  h.flags = flags;
  h.bitmap_words = bitmap_words_for(config_.world_size);
  h.job = config_.job.job;
  h.incarnation = config_.job.incarnation;
  h.stream = stream.id;
  h.value_count = agreed_.value_count;
  h.sequence = sequence;
  h.aggregator_index = stream.indices.at(sequence);
  h.operation = operation.fingerprint;

  const std::span<std::uint8_t> bytes =
      out.reserve(atp_packet_bytes(h.bitmap_words, h.value_count));
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
  out.send_to(to);
  counters_.add(WorkerCounter::kGradientBytesSent, bytes.size());
  return h.flags;
}

// With W contributions of at most a W-th of the range no sum can overflow (paper §B.2).
bool Worker::keeps_from_switches(const Quantized& quantized) const {
  if (config_.overflow == OverflowPolicy::kReactive) return false;
  return quantized.overflow || quantized.magnitude > 0x7fffffffU / config_.world_size;
}

void Worker::poll_transmit(Instant now, Tensors& tensors, Outbox& out) {
  if (state_ != State::kJoined) return;
  held_back_ = false;
  const auto after = [&](std::size_t i) { return i + 1 < streams_.size() ? i + 1 : 0; };
  std::size_t turn = next_stream_;
  do {
    repeat_paced(now, streams_[turn], tensors, out);
    send_new(now, streams_[turn], tensors, out);
    turn = after(turn);
  } while (turn != next_stream_);
  next_stream_ = after(next_stream_);
}

bool Worker::settle_next(Instant now, Stream& stream) {
  Operation& operation = stream.operations.find(stream.window.next());
  if (operation.settled()) return true;
  const std::optional<double> scale = scales_.scale_of(operation.turn);
  if (scale) operation.settle(*scale, now);
  return scale.has_value();
}

void Worker::send_new(Instant now, Stream& stream, Tensors& tensors, Outbox& out) {
  const std::uint8_t words = bitmap_words_for(config_.world_size);
  const std::uint64_t packet_bytes = atp_packet_bytes(words, agreed_.value_count);
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
  while (stream.window.may_send() && out.has_room(1)) {
    if (!fits()) {
      held_back_ = true;
      return;
    }
    if (!settle_next(now, stream)) return;
    const std::uint8_t flags = flags_now();
    const auto sent = put_gradient(stream, stream.window.next(), flags, to, tensors, out);
    if (!sent) return;
    if (stream.window.idle()) arm_timer(now, stream);
    SentFragment& fragment = stream.window.at(stream.window.send(now));
    fragment.proactive = *sent != flags && (*sent & ATP_FLAG_DIRECT) != 0;
    if (fragment.proactive) counters_.add(WorkerCounter::kProactiveFragments);
    in_flight_bytes_ += packet_bytes;
    counters_.add(WorkerCounter::kGradientsSent);
    if ((flags & ATP_FLAG_DIRECT) != 0) counters_.add(WorkerCounter::kGradientsDirect);
  }
}

bool Worker::repeat(Instant now, Stream& stream, std::uint64_t sequence, std::uint8_t least,
                    bool timer, Tensors& tensors, Outbox& out) {
  if (!out.has_room(1)) return false;
  SentFragment& fragment = stream.window.at(sequence);
  const auto rung = std::max<std::uint8_t>(
      least, std::min<std::uint8_t>(kRungDirect, static_cast<std::uint8_t>(fragment.repeats + 1)));
  const bool straight = rung == kRungDirect || fragment.float_mode || !attached();
  std::uint8_t flags = 0;
  WorkerCounter counter = WorkerCounter::kRepeatsPlain;
  if (fragment.float_mode) {
    flags = ATP_FLAG_FLOAT | ATP_FLAG_DIRECT;
    counter = WorkerCounter::kRepeatsFloat;
  } else if (rung == kRungDirect) {
    flags = ATP_FLAG_RESEND | ATP_FLAG_DIRECT;
    counter = WorkerCounter::kRepeatsDirect;
  } else if (rung == kRungResend) {
    flags = ATP_FLAG_RESEND;
    counter = WorkerCounter::kRepeatsResend;
  }
  if (straight) flags |= ATP_FLAG_DIRECT;
  if (!put_gradient(stream, sequence, flags, straight ? server() : parent(), tensors, out)) {
    return false;
  }
  counters_.add(counter);
  fragment.last_sent = now;
  fragment.repeats = rung;
  if (timer) {
    fragment.by_timer = true;
    if (straight) fragment.direct_by_timer = true;
    if (straight && has_switch() && attachment_.count_direct_repeat()) detach(now);
  }
  return true;
}

void Worker::repeat_paced(Instant now, Stream& stream, Tensors& tensors, Outbox& out) {
  while (stream.pacer.may_repeat()) {
    const std::uint64_t sequence = stream.pacer.cursor();
    if (!stream.window.in_flight(sequence)) {
      stream.pacer.skip();
      continue;
    }
    // On a new path each fragment starts at the first rung again.
    if (stream.pacer.paced_all()) stream.window.at(sequence).repeats = 0;
    if (!repeat(now, stream, sequence, kRungPlain, false, tensors, out)) return;
    stream.pacer.repeated();
  }
}

void Worker::handle_stream_timer(Instant now, Stream& stream, Tensors& tensors, Outbox& out) {
  if (now >= stream.follow) {
    stream.follow = kNever;
    stream.pacer.start(stream.window.base(), stream.timed_out_before,
                       RepeatPacer::Extent::kUntilUnrepeatedAnswer);
    return;
  }
  counters_.add(WorkerCounter::kTimeouts);
  stream.timed_out_before = stream.window.next();
  ++stream.backoff;
  repeat(now, stream, stream.window.base(), kRungPlain, true, tensors, out);
  arm_timer(now, stream);
}

void Worker::arm_timer(Instant now, Stream& stream) {
  const Timing& timing = config_.timing;
  const Duration backed_off = rtt_.rto(timing) * (1LL << std::min(stream.backoff, 10U));
  const Duration base = std::min(backed_off, timing.rto_max);
  // Jitter keeps the workers of a stalled fragment from repeating in step (H16).
  stream.timer = now + base +
                 Duration(static_cast<Duration::rep>(random_.uniform() *
                                                     static_cast<double>(base.count()) / 8));
}

}  // namespace atp
