#include "atp/sim/worker_judge.h"

#include <algorithm>

#include "atp/sim/parameter_bytes.h"

namespace atp::sim {
namespace {

constexpr std::uint8_t kFixedKind = 0x08;
constexpr std::uint8_t kExactKind = 0x1c;

}  // namespace

void WorkerJudge::took(const Endpoint& from, std::span<const std::uint8_t> bytes) {
  const ParsedPacket parsed = parse_packet(bytes);
  if (!parsed.ok()) return;
  const PacketView& packet = parsed.view();
  const bool is_meant = (from == config_.route.front() || from == config_.route.back()) &&
                        packet.job() == config_.job && packet.ranks.contains(config_.rank);
  const std::uint16_t stream = packet.header.stream;
  const bool is_own =
      stream >= config_.first_stream && stream - config_.first_stream < config_.stream_count;
  if (!is_meant || !is_own) return;
  if (packet.type() == PacketType::kParameter) note_parameter(stream_of(stream), packet);
  if (packet.type() == PacketType::kNack) note_nack(stream_of(stream), packet);
}

void WorkerJudge::note_parameter(Stream& stream, const PacketView& packet) {
  const std::uint64_t sequence = packet.header.sequence;
  const auto found = stream.fragments.find(sequence);
  if (found == stream.fragments.end() || found->second.answered) return;
  Fragment& fragment = found->second;
  const bool may_be_floats = fragment.kind == kFixedKind || fragment.kind == kExactKind;
  const bool is_of_it = fragment.operation == packet.header.operation &&
                        fragment.kind == packet.header.kind &&
                        fragment.value_count == packet.header.value_count &&
                        (may_be_floats || !packet.has(ATP_FLAG_FLOAT));
  if (!is_of_it) return;
  fragment.answered = true;
  stream.indices[sequence + wmax_] = next_index_of(packet);
  room_.takes_answer(packet.header.stream, packet.has(ATP_FLAG_COLLISION), packet.bytes[kAtPart]);
  while (!stream.fragments.empty() && stream.fragments.begin()->second.answered) {
    stream.indices.erase(stream.fragments.begin()->first);
    stream.fragments.erase(stream.fragments.begin());
  }
}

void WorkerJudge::note_nack(Stream& stream, const PacketView& packet) {
  const std::uint64_t sequence = packet.header.sequence;
  if (sequence >= stream.next) {
    if (sequence - stream.next < wmax_) stream.asked_end = std::max(stream.asked_end, sequence + 1);
    return;
  }
  const auto found = stream.fragments.find(sequence);
  if (found == stream.fragments.end() || !packet.has(ATP_FLAG_FLOAT)) return;
  Fragment& fragment = found->second;
  const std::uint32_t operation = packet.header.operation;
  if (operation != 0 && operation != fragment.operation) return;
  if (fragment.kind == kFixedKind || fragment.kind == kExactKind) fragment.as_floats = true;
}

void WorkerJudge::end_turn(Instant now, bool attached, std::uint64_t room_cuts, const Outbox& out) {
  const bool may_be_plain = was_attached_ || attached;
  for (const OutPacket& one : out.packets()) {
    const ParsedPacket parsed = parse_packet(out.bytes_of(one));
    if (!parsed.ok()) {
      object("an unreadable packet was sent");
    } else if (parsed.view().type() == PacketType::kGradient &&
               parsed.view().job() == config_.job) {
      judge_gradient(parsed.view(), one.to, may_be_plain);
    }
  }
  if (room_cuts != room_.cuts()) {
    object("the room was cut " + std::to_string(room_cuts) + " times instead of " +
           std::to_string(room_.cuts()));
  }
  judge_return(now, attached);
}

void WorkerJudge::judge_gradient(const PacketView& packet, const Endpoint& to, bool may_be_plain) {
  if (packet.ranks != RankSet::of(config_.rank)) object("a GRADIENT of other ranks");
  if (packet.header.hops != ATP_HOPS) object("a GRADIENT with the wrong hop count");
  if (to != config_.route.front() && to != config_.route.back()) object("a GRADIENT to a stranger");
  Stream& stream = stream_of(packet.header.stream);
  judge_flags(stream, packet, may_be_plain);
  judge_place(stream, packet);
}

void WorkerJudge::judge_flags(const Stream& stream, const PacketView& packet, bool may_be_plain) {
  const bool is_direct = packet.has(ATP_FLAG_DIRECT);
  const std::uint64_t sequence = packet.header.sequence;
  if (packet.has(ATP_FLAG_FLOAT) && !is_direct) object("floats that may be merged");
  if (!is_direct && !may_be_plain) object("a packet that may be merged, while detached");
  const bool is_first = sequence == stream.next;
  if (is_first && sequence < stream.asked_end && !is_direct && !packet.has(ATP_FLAG_RESEND)) {
    object("a fragment that the server has asked for, without RESEND");
  }
  if (!config_.plain_repeats && sequence < stream.next && !is_direct &&
      !packet.has(ATP_FLAG_RESEND)) {
    object("a repeat that switches may add, where each is a RESEND");
  }
  if (config_.overflow == OverflowPolicy::kProactive && !is_direct &&
      packet.header.magnitude > 0x7fffffffU / config_.world_size) {
    object("a packet that may overflow and may be merged");
  }
  const auto found = stream.fragments.find(sequence);
  if (found != stream.fragments.end() && found->second.as_floats && !packet.has(ATP_FLAG_FLOAT)) {
    object("integers where floats were asked for");
  }
}

void WorkerJudge::judge_place(Stream& stream, const PacketView& packet) {
  const std::uint64_t sequence = packet.header.sequence;
  if (sequence >= stream.base() + wmax_) object("a sequence further ahead than Wmax");
  if (sequence > stream.next) object("sequences out of order");
  const auto index = stream.indices.find(sequence);
  if (index != stream.indices.end() && index->second != packet.header.aggregator_index) {
    object("a fragment whose index is not the one that an earlier PARAMETER gave");
  }
  if (sequence >= stream.next) {
    if (!room_.sends_new(packet.header.stream)) object("a first transmission without room for it");
    stream.next = sequence + 1;
    stream.fragments[sequence] = {.operation = packet.header.operation,
                                  .kind = packet.header.kind,
                                  .value_count = packet.header.value_count,
                                  .as_floats = packet.has(ATP_FLAG_FLOAT)};
    return;
  }
  const auto found = stream.fragments.find(sequence);
  if (found == stream.fragments.end() || found->second.answered) {
    object("a repeat of an answered fragment");
  } else if (found->second.operation != packet.header.operation) {
    object("a repeat as another operation");
  }
}

// The first return may be immediate; each later one comes after a wait that doubles.
void WorkerJudge::judge_return(Instant now, bool attached) {
  if (was_attached_ && !attached) {
    ++detachments_;
    detached_at_ = now;
  }
  if (!was_attached_ && attached && detachments_ > 1) {
    const std::uint32_t doublings = std::min(detachments_ - 2, 20U);
    const Duration wait =
        std::min(config_.timing.return_first * (1 << doublings), config_.timing.return_max);
    if (now < detached_at_ + wait) object("a return to the tree before its time");
  }
  was_attached_ = attached;
}

bool WorkerJudge::has_passed(std::uint64_t sequence) const {
  return config_.first_sequence < sequence &&
         std::any_of(
             streams_.begin(), streams_.end(),
             [&](const auto& stream) { return stream.second.next > sequence; });
}

void WorkerJudge::object(const std::string& what) {
  if (violations_.size() < kMaxViolations)
    violations_.push_back("not allowed by the protocol: " + what);
}

}  // namespace atp::sim
