#include "atp/core/dataplane/uplink.h"

#include <algorithm>

#include "atp/core/dataplane/answers.h"

namespace atp {
namespace {

// Reserves the packet and writes all but its values; empty if the outbox was full.
std::span<std::uint8_t> put_fragment(Outbox& out, const atp_fragment& fragment) {
  const atp_header& header = fragment.header;
  const std::span<std::uint8_t> bytes =
      out.reserve(atp_packet_bytes(header.bitmap_words, header.value_count));
  if (bytes.empty()) return {};
  atp_write_header(bytes.data(), &header);
  for (std::size_t w = 0; w < header.bitmap_words; ++w) {
    atp_store64(bytes.data() + ATP_AT_BITMAP + 8 * w, fragment.bitmap[w]);
  }
  return bytes;
}

}  // namespace

atp_fragment fragment_of(const PacketView& packet) {
  atp_fragment fragment;
  fragment.header = packet.header;
  std::copy(packet.ranks.words().begin(), packet.ranks.words().end(), fragment.bitmap);
  return fragment;
}

std::uint64_t nanoseconds(Instant now) {
  return static_cast<std::uint64_t>(now.time_since_epoch().count());
}

void send_up(SwitchState& state, Instant now, const Endpoint& parent, const atp_fragment& fragment,
             const ValueSource& source, Outbox& out) {
  const std::span<std::uint8_t> bytes = put_fragment(out, fragment);
  if (bytes.empty()) {
    // Lost, as in a full queue; but what the bitmap says is in the sum must be in it.
    const bool adds = source.operation == ATP_DATA_ADD_LOAD;
    const atp_data_op operation = adds ? ATP_DATA_ADD : source.operation;
    if (operation != ATP_DATA_LOAD) {
      state.aggregators.apply(operation, source.slot, source.values, {});
    }
    return;
  }
  const auto values = bytes.subspan(atp_body_offset(fragment.header.bitmap_words));
  state.aggregators.apply(source.operation, source.slot, source.values, values);
  if (source.operation == ATP_DATA_NONE || source.operation == ATP_DATA_STORE) {
    std::copy(source.values.begin(), source.values.end(), values.begin());
  }
  const bool queue_is_long = state.uplink.send(now, bytes.size());
  if (queue_is_long || state.congested) {
    bytes[ATP_AT_FLAGS] |= ATP_FLAG_ECN;
    state.counters.add(SwitchCounter::kEcnMarks);
  }
  out.send_to(parent);
}

bool emit_released(SwitchState& state, Instant now, const atp_fragment& sum, std::uint32_t slot,
                   Outbox& out) {
  const JobKey job{sum.header.job, sum.header.incarnation};
  const Tree* tree = state.trees.find(job, sum.header.stream);
  if (tree == nullptr) return false;
  send_up(state, now, tree->parent(), sum, {ATP_DATA_LOAD, slot, {}}, out);
  return true;
}

void handle_gradient(SwitchState& state, const Arrival& in) {
  const atp_header& header = in.packet.header;
  const Tree* tree = state.trees.find(in.packet.job(), header.stream);
  if (tree == nullptr) {
    state.counters.add(SwitchCounter::kDropUnknownJob);
    answer_unknown(state, in, in.packet.ranks);
    return;
  }
  const RankSet& child = tree->membership().behind(in.from);
  if (child.empty()) {
    state.counters.add(SwitchCounter::kDropUnknownChild);
    answer_unknown(state, in, in.packet.ranks);
    return;
  }

  const atp_share& share = state.trees.shares()[tree->share()];
  const std::uint32_t slot = atp_slot_of_share(&share, header.aggregator_index);
  atp_fragment fragment = fragment_of(in.packet);
  const atp_verdict verdict = state.decide(slot, [&](atp_aggregator& aggregator) {
    return atp_on_gradient(&aggregator, &tree->entry(), &share, child.words().data(),
                           tree->sequence_limit(header.stream), nanoseconds(in.now), &fragment);
  });
  const auto reason = static_cast<atp_reason>(verdict.reason);
  const auto operation = static_cast<atp_data_op>(verdict.data);
  state.counters.add(switch_counter_of(reason));
  if (reason == ATP_DROP_FOREIGN_RANKS) answer_unknown(state, in, in.packet.ranks - child);
  if (verdict.forward == ATP_FORWARD_PARENT) {
    send_up(state, in.now, tree->parent(), fragment, {operation, slot, in.packet.body}, in.out);
  } else {
    state.aggregators.apply(operation, slot, in.packet.body, {});
  }
}

}  // namespace atp
