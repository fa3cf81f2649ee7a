#include "atp/sim/contribution_judge.h"

#include <algorithm>

#include "atp/wire/status.h"

namespace atp::sim {
namespace {

using P = ServerCounter;

constexpr std::uint8_t kFixedKind = 0x08;
constexpr std::uint8_t kExactKind = 0x1c;

// What a row of the table may count; the first transmission of a contribution counts nothing.
constexpr P kRows[] = {P::kDropWrongOperation,      P::kDropWrongShape, P::kDropFloatInIntegerMode,
                       P::kDropFloatOfSeveralRanks, P::kDropDuplicate,  P::kDropOverlap,
                       P::kDropFloatWaits,          P::kDropComplete,   P::kDropIntegerInFloatMode};

bool is_float(const PacketView& packet) {
  return packet.has(ATP_FLAG_FLOAT) || packet.header.kind == kExactKind;
}

}  // namespace

void ContributionJudge::end_gradient(const PacketView& packet, std::uint16_t world_size,
                                     const Counters<ServerCounter>& before,
                                     const Counters<ServerCounter>& after, const Outbox& out) {
  Stream& stream = streams_[{packet.job(), packet.header.stream}];
  const std::uint64_t sequence = packet.header.sequence;
  Fragment& fragment = stream[sequence];
  fragment.all = RankSet::first(world_size);
  const bool was_complete = fragment.phase == Phase::kComplete;
  const Allowed allowed = row_of(packet, fragment);
  P found = P::kCount;
  for (const P row : kRows) {
    if (after[row] != before[row]) found = row;
  }
  if (std::find(allowed.begin(), allowed.end(), found) == allowed.end()) {
    object("a contribution was handled as " +
           (found == P::kCount ? "a new one" : std::string(to_string(found))) + " instead of " +
           (allowed[0] == P::kCount ? "a new one" : std::string(to_string(allowed[0]))));
  }
  judge_sent(packet, fragment, was_complete, out);
  if (fragment.phase != Phase::kComplete) return;
  // Nobody asks for fragments that were completed so long ago.
  const std::uint64_t kept = 4 * std::uint64_t{wmax_};
  if (sequence > kept) stream.erase(stream.begin(), stream.lower_bound(sequence - kept));
}

ContributionJudge::Allowed ContributionJudge::row_of(const PacketView& packet, Fragment& fragment) {
  const atp_header& h = packet.header;
  if (fragment.is_named && h.operation != fragment.operation) {
    if (fragment.phase != Phase::kComplete) fragment.others |= packet.ranks;
    return {P::kDropWrongOperation};
  }
  const bool has_shape = h.kind == fragment.kind && h.value_count == fragment.value_count;
  if (fragment.is_named && !has_shape) return {P::kDropWrongShape};
  switch (fragment.phase) {
    case Phase::kCollecting: return meet_integers(packet, fragment);
    case Phase::kFloats: return meet_floats(packet, fragment);
    case Phase::kComplete: break;
  }
  return {P::kDropComplete};
}

ContributionJudge::Allowed ContributionJudge::meet_integers(const PacketView& packet,
                                                            Fragment& fragment) {
  const RankSet& ranks = packet.ranks;
  if (packet.header.kind == kExactKind) {
    if (ranks.size() > 1) return {P::kDropFloatOfSeveralRanks};
    take(packet, fragment);
    return {P::kCount, P::kDropFloatWaits};
  }
  if (is_float(packet)) return {P::kDropFloatInIntegerMode};
  const bool is_new = !ranks.intersects(fragment.ranks);
  if (is_new || (ranks.contains(fragment.ranks) && ranks != fragment.ranks)) {
    if (!is_new) {  // it contains all that it replaces
      fragment.ranks.clear();
      fragment.magnitude = 0;
      fragment.overflows = false;
    }
    take(packet, fragment);
    return {P::kCount};
  }
  return {fragment.ranks.contains(ranks) ? P::kDropDuplicate : P::kDropOverlap};
}

ContributionJudge::Allowed ContributionJudge::meet_floats(const PacketView& packet,
                                                          Fragment& fragment) {
  if (!is_float(packet)) return {P::kDropIntegerInFloatMode, P::kDropDuplicate};
  if (packet.ranks.size() > 1) return {P::kDropFloatOfSeveralRanks, P::kDropDuplicate};
  const bool is_first = !fragment.floats.contains(packet.ranks);
  fragment.floats |= packet.ranks;
  if (is_first && packet.header.kind == kFixedKind) {
    return {P::kCount, P::kDropDuplicate, P::kDropFloatWaits};
  }
  if (is_first) return {P::kCount, P::kDropFloatWaits};
  return {P::kDropDuplicate, P::kDropFloatWaits, P::kCount};
}

void ContributionJudge::take(const PacketView& packet, Fragment& fragment) {
  const atp_header& h = packet.header;
  fragment.is_named = true;
  fragment.operation = h.operation;
  fragment.kind = h.kind;
  fragment.value_count = h.value_count;
  if (h.kind == kExactKind) {
    fragment.phase = Phase::kFloats;
    fragment.floats = packet.ranks;
    return;
  }
  fragment.ranks |= packet.ranks;
  const std::uint64_t magnitude = std::uint64_t{fragment.magnitude} + h.magnitude;
  fragment.magnitude = static_cast<std::uint32_t>(std::min<std::uint64_t>(magnitude, 0xffffffff));
  fragment.overflows |= packet.has(ATP_FLAG_OVERFLOW);
  if (fragment.ranks != fragment.all) return;
  const bool is_too_large = fragment.overflows || fragment.magnitude > 0x7fffffff;
  fragment.phase = h.kind == kFixedKind && is_too_large ? Phase::kFloats : Phase::kComplete;
}

// A fragment's PARAMETER is sent when it is complete, and not before; a NACK asks only ranks whose
// contributions are missing, in the form that is missing.
void ContributionJudge::judge_sent(const PacketView& cause, Fragment& fragment, bool was_complete,
                                   const Outbox& out) {
  const bool completes = fragment.phase == Phase::kComplete && !was_complete;
  bool is_answered = false;
  for (const OutPacket& packet : out.packets()) {
    const ParsedPacket parsed = parse_packet(out.bytes_of(packet));
    if (!parsed.ok()) continue;
    const PacketView& sent = parsed.view();
    const bool is_of_fragment = sent.job() == cause.job() &&
                                sent.header.stream == cause.header.stream &&
                                sent.header.sequence == cause.header.sequence;
    if (!is_of_fragment) continue;
    if (sent.type() == PacketType::kParameter) {
      is_answered = true;
      if (fragment.phase == Phase::kFloats && fragment.floats == fragment.all) {
        fragment.phase = Phase::kComplete;
        if (!sent.has(ATP_FLAG_FLOAT)) object("a sum of floats was sent as integers");
      }
      if (fragment.phase != Phase::kComplete) object("an incomplete fragment was answered");
    } else if (sent.type() == PacketType::kNack) {
      if (fragment.phase == Phase::kComplete) object("a NACK for a complete fragment");
      const bool wants_floats = sent.has(ATP_FLAG_FLOAT);
      if (wants_floats != (fragment.phase == Phase::kFloats)) {
        object("a NACK that asks for the wrong numbers");
      }
      if (!wants_floats && sent.ranks.intersects(fragment.ranks)) {
        object("a NACK to a rank whose contribution has come");
      }
    }
  }
  if (completes && !is_answered) object("a complete fragment was not answered");
}

void ContributionJudge::judge_status(const PacketView& packet) {
  const auto status = StatusMessage::read(packet);
  if (!status) return;
  const auto stream = streams_.find({packet.job(), packet.header.stream});
  if (stream == streams_.end()) return;
  const auto found = stream->second.find(packet.header.sequence);
  if (found == stream->second.end() || packet.header.operation == 0) return;
  const Fragment& fragment = found->second;
  if (status->code == StatusCode::kWaitingFor) {
    if (fragment.phase == Phase::kComplete) object("*waiting for* about a complete fragment");
    if (fragment.phase == Phase::kCollecting && status->about.intersects(fragment.ranks)) {
      object("*waiting for* names a rank whose contribution has come");
    }
  }
  if (status->code == StatusCode::kOperationMismatch) {
    const RankSet own = fragment.kind == kExactKind ? fragment.floats : fragment.ranks;
    if (!own.contains(status->about) || status->about.intersects(status->other)) {
      object("*operation mismatch* puts a rank on the wrong side");
    }
    if (status->about.empty() || status->other.empty()) {
      object("*operation mismatch* has nobody on one side");
    }
  }
}

}  // namespace atp::sim
