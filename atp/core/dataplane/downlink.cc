#include "atp/core/dataplane/downlink.h"

#include "atp/core/dataplane/uplink.h"

namespace atp {
namespace {

// One payload, sent to each child with a rank that is addressed.
void send_down(SwitchState& state, const Tree& tree, const Arrival& in) {
  bool stored = false;
  for (const Child& child : tree.membership().children()) {
    if (!child.ranks.intersects(in.packet.ranks)) continue;
    if (stored) {
      in.out.send_to(child.endpoint);
    } else {
      in.out.send(child.endpoint, in.packet.bytes);
    }
    stored = true;
    state.counters.add(SwitchCounter::kMulticastCopies);
  }
  if (!stored) state.counters.add(SwitchCounter::kDropNoChildAddressed);
}

// What a PARAMETER does to its aggregator.
void release(SwitchState& state, const Arrival& in, std::uint32_t slot) {
  const atp_header& header = in.packet.header;
  const std::uint64_t now = nanoseconds(in.now);
  const auto reclaim = static_cast<std::uint64_t>(state.config.timing.reclaim.count());
  // User space can send more than one packet, so it emits the sum that has to make room (H29).
  if (atp_parameter_reclaims(&state.aggregators[slot], &header, now, reclaim)) {
    atp_fragment sum{};
    atp_write_sum(&state.aggregators[slot], &sum, ATP_FLAG_RESEND);
    emit_released(state, in.now, sum, slot, in.out);
  }
  const atp_verdict verdict = state.decide(slot, [&](atp_aggregator& aggregator) {
    return atp_on_parameter(&aggregator, &header, now, reclaim);
  });
  const SwitchCounter counter = switch_counter_of(static_cast<atp_reason>(verdict.reason));
  if (counter != SwitchCounter::kCount) state.counters.add(counter);
}

void handle_parameter(SwitchState& state, Tree& tree, const Arrival& in) {
  const atp_header& header = in.packet.header;
  const atp_share& share = state.trees.shares()[tree.share()];
  if (share.size > 0) release(state, in, atp_slot_of_share(&share, header.aggregator_index));
  tree.note_parameter(header.stream, header.sequence);
  send_down(state, tree, in);
}

void handle_flush(SwitchState& state, const Tree& tree, const Arrival& in) {
  const atp_share& share = state.trees.shares()[tree.share()];
  if (share.size == 0) return send_down(state, tree, in);
  const std::uint32_t slot = atp_slot_of_share(&share, in.packet.header.aggregator_index);
  atp_fragment fragment = fragment_of(in.packet);
  const atp_verdict verdict = state.decide(
      slot, [&](atp_aggregator& aggregator) { return atp_on_flush(&aggregator, &fragment); });
  if (verdict.forward == ATP_FORWARD_CHILDREN) return send_down(state, tree, in);
  state.counters.add(switch_counter_of(static_cast<atp_reason>(verdict.reason)));
  send_up(state, in.now, tree.parent(), fragment,
          {static_cast<atp_data_op>(verdict.data), slot, {}}, in.out);
}

void handle_join_ack(SwitchState& state, Tree& tree, const Arrival& in) {
  const std::optional<JoinAck> ack = JoinAck::read(in.packet.body);
  if (!ack) return state.counters.add(SwitchCounter::kDropBadBody);
  tree.learn(*ack);
  send_down(state, tree, in);
}

void note_detached(Tree& tree, const StatusMessage& status) {
  std::size_t i = 0;
  status.about.for_each([&](Rank rank) { tree.detach(rank, status.numbers[i++]); });
}

// Calls act(rank) for the ranks that the message is about, unless it is about an earlier socket.
template <class Act>
void for_each_meant(const Tree& tree, const StatusMessage& status, Act&& act) {
  status.about.for_each([&](Rank rank) {
    const Membership& membership = tree.membership();
    if (membership.knows(rank) && membership.member(rank).nonce == status.nonce) act(rank);
  });
}

void handle_status(SwitchState& state, Tree& tree, const Arrival& in) {
  const std::optional<StatusMessage> status =
      StatusMessage::read(in.packet.body, in.packet.header.bitmap_words);
  if (!status) return state.counters.add(SwitchCounter::kDropBadBody);
  // It goes on first: who is forgotten here is still to be told why.
  send_down(state, tree, in);
  switch (status->code) {
    case StatusCode::kDetached: note_detached(tree, *status); break;
    case StatusCode::kLeft:  // its LEAVE may have gone straight to the server
      for_each_meant(tree, *status, [&](Rank rank) { tree.leave(rank); });
      break;
    case StatusCode::kRefused:  // the JOIN that this switch has noted was turned down further up
    case StatusCode::kRankTaken:
      for_each_meant(tree, *status, [&](Rank rank) { tree.remove(rank); });
      break;
    // Leases here end by themselves; the rest is between the server and the workers.
    default: break;
  }
}

}  // namespace

void handle_downward(SwitchState& state, const Arrival& in) {
  Tree* tree = state.trees.find(in.packet.job(), in.packet.header.stream);
  if (tree == nullptr) return state.counters.add(SwitchCounter::kDropUnknownJob);
  if (in.from != tree->parent()) return state.counters.add(SwitchCounter::kDropNotFromParent);
  if (in.packet.header.bitmap_words != tree->bitmap_words()) {
    return state.counters.add(SwitchCounter::kDropWrongBitmapWidth);
  }
  switch (in.packet.type()) {
    case PacketType::kParameter: return handle_parameter(state, *tree, in);
    case PacketType::kFlush: return handle_flush(state, *tree, in);
    case PacketType::kJoinAck: return handle_join_ack(state, *tree, in);
    case PacketType::kStatus: return handle_status(state, *tree, in);
    default: return send_down(state, *tree, in);  // NACK
  }
}

}  // namespace atp
