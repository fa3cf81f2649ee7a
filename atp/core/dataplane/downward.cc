// Forwards each downward message, and what its type changes at this switch.
#include "atp/core/dataplane/downward.h"

#include "atp/core/dataplane/upward.h"

namespace atp {
namespace {

// Sends one payload to each child with an addressed rank behind it.
void send_down(SwitchTurn& turn, const Arrival& in, const Tree& tree) {
  bool stored = false;
  for (const Child& child : tree.membership().children()) {
    if (!child.ranks.intersects(in.packet.ranks)) continue;
    if (stored) {
      turn.out.send_to(child.endpoint);
    } else {
      turn.out.pass_on(child.endpoint, in.packet.bytes);
    }
    stored = true;
    turn.count(SwitchCounter::kMulticastCopies);
  }
  if (!stored) turn.count(SwitchCounter::kDropNoChildAddressed);
}

// Releases the aggregator of a PARAMETER.
void release(SwitchTurn& turn, const Arrival& in, std::uint32_t slot) {
  const atp_header& header = in.packet.header;
  const std::uint64_t now = nanoseconds(turn.now);
  const auto reclaim = static_cast<std::uint64_t>(turn.config.timing.reclaim.count());
  // User space can send more than one packet, so it emits the sum that is reclaimed (H29).
  if (atp_parameter_reclaims(&turn.state.aggregators[slot], &header, now, reclaim)) {
    atp_fragment sum{};
    atp_write_sum(&turn.state.aggregators[slot], &sum, ATP_FLAG_RESEND);
    emit_released(turn, sum, slot);
  }
  const atp_verdict verdict = turn.state.decide(slot, [&](atp_aggregator& aggregator) {
    return atp_on_parameter(&aggregator, &header, now, reclaim);
  });
  const SwitchCounter counter = switch_counter_of(static_cast<atp_reason>(verdict.reason));
  if (counter != SwitchCounter::kCount) turn.count(counter);
}

void handle_parameter(SwitchTurn& turn, const Arrival& in, Tree& tree) {
  const atp_header& header = in.packet.header;
  const atp_share& share = turn.state.trees.shares()[tree.share()];
  if (share.size > 0) release(turn, in, atp_slot_of_share(&share, header.aggregator_index));
  tree.note_parameter(header.stream, header.sequence);
  send_down(turn, in, tree);
}

void handle_flush(SwitchTurn& turn, const Arrival& in, const Tree& tree) {
  const atp_share& share = turn.state.trees.shares()[tree.share()];
  if (share.size == 0) return send_down(turn, in, tree);
  const std::uint32_t slot = atp_slot_of_share(&share, in.packet.header.aggregator_index);
  atp_fragment fragment = fragment_of(in.packet);
  const atp_verdict verdict = turn.state.decide(
      slot, [&](atp_aggregator& aggregator) { return atp_on_flush(&aggregator, &fragment); });
  if (verdict.forward == ATP_FORWARD_CHILDREN) return send_down(turn, in, tree);
  turn.count(switch_counter_of(static_cast<atp_reason>(verdict.reason)));
  send_up(turn, tree.parent(), fragment, {static_cast<atp_data_op>(verdict.data), slot, {}});
}

void handle_join_ack(SwitchTurn& turn, const Arrival& in, Tree& tree) {
  const std::optional<JoinAck> ack = JoinAck::read(in.packet.body);
  if (!ack) return turn.count(SwitchCounter::kDropBadBody);
  tree.learn(*ack);
  send_down(turn, in, tree);
}

void note_detached(Tree& tree, const StatusMessage& status) {
  std::size_t i = 0;
  status.about.for_each([&](Rank rank) { tree.detach(rank, status.numbers[i++]); });
}

// Calls act(rank) for each rank that the message is about, unless it concerns an earlier socket.
template <class Act>
void for_each_meant(const Tree& tree, const StatusMessage& status, Act&& act) {
  status.about.for_each([&](Rank rank) {
    const Membership& membership = tree.membership();
    if (membership.knows(rank) && membership.member(rank).nonce == status.nonce) act(rank);
  });
}

void handle_status(SwitchTurn& turn, const Arrival& in, Tree& tree) {
  const std::optional<StatusMessage> status = StatusMessage::read(in.packet);
  if (!status) return turn.count(SwitchCounter::kDropBadBody);
  // Forward it first: a rank that is forgotten below must still learn why.
  send_down(turn, in, tree);
  switch (status->code) {
    case StatusCode::kWaitingFor: tree.note_waiting(turn.now, in.packet.header, *status); break;
    case StatusCode::kDetached: note_detached(tree, *status); break;
    case StatusCode::kLeft:  // its LEAVE may have gone straight to the server
      for_each_meant(tree, *status, [&](Rank rank) { tree.leave(rank); });
      break;
    case StatusCode::kRefused:  // the JOIN that this switch noted was refused further up
    case StatusCode::kRankTaken:
      for_each_meant(tree, *status, [&](Rank rank) { tree.remove(rank); });
      break;
    // Leases here end by themselves; the other codes concern only the server and the workers.
    default: break;
  }
}

}  // namespace

void handle_downward(SwitchTurn& turn, const Arrival& in) {
  Tree* tree = turn.state.trees.find(in.packet.job(), in.packet.header.stream);
  if (tree == nullptr) return turn.count(SwitchCounter::kDropUnknownJob);
  if (in.from != tree->parent()) return turn.count(SwitchCounter::kDropNotFromParent);
  if (in.packet.header.bitmap_words != tree->bitmap_words()) {
    return turn.count(SwitchCounter::kDropWrongBitmapWidth);
  }
  switch (in.packet.type()) {
    case PacketType::kParameter: return handle_parameter(turn, in, *tree);
    case PacketType::kFlush: return handle_flush(turn, in, *tree);
    case PacketType::kJoinAck: return handle_join_ack(turn, in, *tree);
    case PacketType::kStatus: return handle_status(turn, in, *tree);
    default: return send_down(turn, in, *tree);  // NACK
  }
}

}  // namespace atp
