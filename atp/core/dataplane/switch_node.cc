#include "atp/core/dataplane/switch_node.h"

#include <algorithm>

#include "atp/core/dataplane/answers.h"
#include "atp/core/dataplane/downlink.h"
#include "atp/core/dataplane/join_relay.h"
#include "atp/core/dataplane/sweep.h"
#include "atp/core/dataplane/uplink.h"

namespace atp {

SwitchNode::SwitchNode(const SwitchConfig& config) : state_(config) {}

void SwitchNode::handle_packet(Instant now, const Endpoint& from,
                               std::span<const std::uint8_t> bytes, Outbox& out) {
  state_.counters.add(SwitchCounter::kPacketsReceived);
  const ParsedPacket parsed = parse_packet(bytes);
  if (!parsed.ok()) return handle_unparsed(now, from, parsed.error(), bytes, out);

  const Arrival in{now, from, parsed.view(), out};
  state_.counters.add(switch_counter_of(in.packet.type()));
  switch (in.packet.type()) {
    case PacketType::kGradient: return handle_gradient(state_, in);
    case PacketType::kJoin:
      handle_join(state_, in);
      if (state_.trees.size() > 0) sweep_.arm(now, state_.config.timing.sweep);
      return;
    case PacketType::kLeave: return handle_leave(state_, in);
    default: return handle_downward(state_, in);
  }
}

void SwitchNode::handle_unparsed(Instant now, const Endpoint& from, ParseError error,
                                 std::span<const std::uint8_t> bytes, Outbox& out) {
  state_.counters.add(switch_counter_of(error));
  if (error == ParseError::kUnknownVersion) answer_versions(state_, now, from, bytes, out);
}

void SwitchNode::handle_unreachable(Instant, const Endpoint&, Outbox&) {
  state_.counters.add(SwitchCounter::kUnreachable);
}

void SwitchNode::handle_timeout(Instant now, Outbox& out) {
  if (now >= sweep_.next()) sweep_.run(now, state_, out);
}

}  // namespace atp
