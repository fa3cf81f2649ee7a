// Looks up the tree and aggregator of a GRADIENT, applies the pipeline's verdict and sends the
// result.
#include "atp/core/dataplane/upward.h"

#include <algorithm>

#include "atp/core/dataplane/answers.h"

namespace atp {
namespace {

// A GRADIENT that got no place, although it may have looked for one.
void note_passed(SwitchTurn& turn, Tree& tree, atp_reason reason) {
  if (reason >= ATP_PASS_AFTER_COLLISION) tree.note_collided();
  if (reason == ATP_PASS_COLLISION) turn.state.trees.shares().note_collision(tree.share());
}

// Reserves the packet and writes everything but its values. Empty if the outbox is full.
std::span<std::uint8_t> put_fragment(Outbox& out, const atp_fragment& fragment) {
  const atp_header& header = fragment.header;
  const std::span<std::uint8_t> bytes =
      out.reserve(atp_packet_bytes(header.bitmap_words, header.kind, header.value_count));
  if (bytes.empty()) return {};
  atp_write_header(bytes.data(), &header);
  --bytes[ATP_AT_HOPS];
  for (std::size_t w = 0; w < header.bitmap_words; ++w) {
    atp_store64(bytes.data() + ATP_AT_BITMAP + 8 * w, fragment.bitmap[w]);
  }
  return bytes;
}

}  // namespace

void send_up(SwitchTurn& turn, const Endpoint& parent, const atp_fragment& fragment,
             const ValueSource& source) {
  const std::uint8_t kind = fragment.header.kind;
  const std::span<std::uint8_t> bytes = put_fragment(turn.out, fragment);
  if (bytes.empty()) {
    // The packet is lost, as in a full queue; but the sum must still take in what its bitmap says.
    const bool combines = source.operation == ATP_DATA_COMBINE_LOAD;
    const atp_data_op operation = combines ? ATP_DATA_COMBINE : source.operation;
    if (operation != ATP_DATA_LOAD) {
      turn.state.aggregators.apply(operation, kind, source.slot, source.values, {});
    }
    return;
  }
  const auto values = bytes.subspan(atp_body_offset(fragment.header.bitmap_words));
  turn.state.aggregators.apply(source.operation, kind, source.slot, source.values, values);
  if (source.operation == ATP_DATA_NONE || source.operation == ATP_DATA_STORE) {
    std::copy(source.values.begin(), source.values.end(), values.begin());
  }
  const bool queue_is_long = turn.state.uplink.send(turn.now, bytes.size());
  if (queue_is_long || turn.state.congested) {
    bytes[ATP_AT_FLAGS] |= ATP_FLAG_ECN;
    turn.count(SwitchCounter::kEcnMarks);
  }
  turn.out.send_to(parent);
}

bool emit_released(SwitchTurn& turn, const atp_fragment& sum, std::uint32_t slot) {
  const JobKey job{sum.header.job, sum.header.incarnation, sum.header.tenant};
  const Tree* tree = turn.state.trees.find(job, sum.header.stream);
  if (tree == nullptr) return false;
  send_up(turn, tree->parent(), sum, {ATP_DATA_LOAD, slot, {}});
  return true;
}

void handle_gradient(SwitchTurn& turn, const Arrival& in) {
  const atp_header& header = in.packet.header;
  Tree* tree = turn.state.trees.find(in.packet.job(), header.stream);
  if (tree == nullptr) {
    turn.count(SwitchCounter::kDropUnknownJob);
    answer_unknown(turn, in, in.packet.ranks);
    return;
  }
  const RankSet& child = tree->membership().behind(in.from);
  if (child.empty()) {
    turn.count(SwitchCounter::kDropUnknownChild);
    answer_unknown(turn, in, in.packet.ranks);
    return;
  }

  const atp_share& share = turn.state.trees.shares()[tree->share()];
  const auto [slot, home, has] = turn.state.find(share, header);
  const std::uint64_t limit = tree->sequence_limit(header.stream);
  atp_fragment fragment = fragment_of(in.packet);
  atp_aggregator* const at_home = &turn.state.aggregators[home];
  const atp_verdict verdict = turn.state.decide(slot, [&](atp_aggregator& aggregator) {
    return atp_on_gradient(&aggregator, at_home, has, &tree->entry(), &share, child.words().data(),
                           limit, nanoseconds(turn.now), &fragment);
  });
  const auto reason = static_cast<atp_reason>(verdict.reason);
  const auto operation = static_cast<atp_data_op>(verdict.data);
  turn.count(switch_counter_of(reason));
  // Do not count dropped packets or a forged sequence far ahead, after which the honest packets
  // would be taken for repeats.
  if (reason > ATP_LAST_DROP && header.sequence <= limit) {
    tree->note_gradient(turn.now, header, in.packet.ranks);
  }
  if (reason > ATP_PASS_COLLISION) {
    tree->note_found();
  } else {
    note_passed(turn, *tree, reason);
    if (reason == ATP_DROP_FOREIGN_RANKS) answer_unknown(turn, in, in.packet.ranks - child);
  }
  if (verdict.forward == ATP_FORWARD_PARENT) {
    send_up(turn, tree->parent(), fragment, {operation, slot, in.packet.body});
  } else {
    turn.state.aggregators.apply(operation, header.kind, slot, in.packet.body, {});
  }
}

}  // namespace atp
