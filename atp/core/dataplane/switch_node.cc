#include "atp/core/dataplane/switch_node.h"

#include <algorithm>

#include "atp/base/check.h"
#include "atp/core/dataplane/answers.h"
#include "atp/core/dataplane/downward.h"
#include "atp/core/dataplane/join_relay.h"
#include "atp/core/dataplane/sweep.h"
#include "atp/core/dataplane/upward.h"

namespace atp {

SwitchNode::SwitchNode(const SwitchConfig& config) : state_(config) {
  ATP_CHECK(config.places >= 1 && config.places <= kMostPlaces);
}

void SwitchNode::handle_packet(Instant now, const Endpoint& from, const Endpoint& to,
                               std::span<const std::uint8_t> bytes, Outbox& out) {
  SwitchTurn turn = begin_turn(now, out);
  turn.count(SwitchCounter::kPacketsReceived);
  const ParsedPacket parsed = parse_packet(bytes);
  if (!parsed.ok()) {
    turn.count(switch_counter_of(parsed.error()));
    if (parsed.error() == ParseError::kUnknownVersion) answer_versions(turn, from, bytes);
    return;
  }
  const Arrival in{from, to, parsed.view()};
  turn.count(switch_counter_of(in.packet.type()));
  if (in.packet.header.hops == 0) return turn.count(SwitchCounter::kDropTooManyHops);
  switch (in.packet.type()) {
    case PacketType::kGradient: return handle_gradient(turn, in);
    case PacketType::kJoin:
      handle_join(turn, in);
      if (state_.trees.size() > 0) sweep_.arm(now, state_.config.timing.sweep);
      return;
    case PacketType::kLeave: return handle_leave(turn, in);
    case PacketType::kStatus:
      if (answer_question(turn, in)) return;
      return handle_downward(turn, in);
    default: return handle_downward(turn, in);
  }
}

void SwitchNode::refuse_key(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                            KeyProblem problem, Outbox& out) {
  SwitchTurn turn = begin_turn(now, out);
  turn.count(SwitchCounter::kPacketsReceived);
  turn.count(SwitchCounter::kDropKey);
  const ParsedPacket parsed = parse_packet(bytes);
  if (!parsed.ok() || parsed.view().type() != PacketType::kJoin) return;
  const auto join = Join::read(parsed.view().body);
  if (!join) return;
  answer_refused(turn, {from, {}, parsed.view()}, *join,
                 {RefusalReason::kKey, static_cast<std::uint32_t>(problem)});
}

void SwitchNode::handle_unreachable(Instant, const Endpoint&, Outbox&) {
  state_.counters.add(SwitchCounter::kUnreachable);
}

void SwitchNode::handle_timeout(Instant now, Outbox& out) {
  if (now < sweep_.next()) return;
  SwitchTurn turn = begin_turn(now, out);
  sweep_.run(turn);
}

}  // namespace atp
