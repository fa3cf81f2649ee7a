#include "explore/properties.h"

#include <algorithm>

namespace atp::explore {
namespace {

// Whether the switch accepts packets of these ranks.
bool knows(const SwitchState& state, const Endpoint& from, const PacketView& packet) {
  for (const Tree& tree : state.trees.trees()) {
    if (tree.job() != packet.job() || !tree.streams().contains(packet.header.stream)) continue;
    return tree.membership().behind(from).contains(packet.ranks);
  }
  return false;
}

}  // namespace

std::vector<Witness::Held> Witness::held_by(const SwitchState& state) {
  std::vector<Held> held;
  for (std::uint32_t slot = 0; slot < state.aggregators.size(); ++slot) {
    const atp_aggregator& a = state.aggregators[slot];
    if (a.state != ATP_AGGREGATING) continue;
    const atp_identity& i = a.identity;
    Held one{.identity = {{i.job, i.incarnation, i.tenant}, i.stream, i.sequence, i.operation}};
    for (std::size_t w = 0; w < a.bitmap_words; ++w) one.ranks.set_word(w, a.bitmap[w]);
    held.push_back(one);
  }
  return held;
}

Witness::Witness(Node& node) {
  if (auto* server = std::get_if<Server>(&node)) final_ = complete_fragments(*server);
  if (auto* switch_node = std::get_if<SwitchNode>(&node)) owed_ = held_by(inside(*switch_node));
}

Witness::Witness(Node& node, const Endpoint& from, const PacketView& packet) : Witness(node) {
  auto* const switch_node = std::get_if<SwitchNode>(&node);
  if (switch_node == nullptr) return;
  if (packet.type() == PacketType::kGradient && knows(inside(*switch_node), from, packet)) {
    owed_.push_back({packet.identity(), packet.ranks});
  }
  completes_ = packet.type() == PacketType::kParameter;
  completed_ = packet.identity();
}

std::string Witness::objection(Node& node, const std::vector<Packet>& sent) const {
  if (auto* server = std::get_if<Server>(&node)) return judge_server(*server, sent);
  if (auto* switch_node = std::get_if<SwitchNode>(&node)) return judge_switch(*switch_node, sent);
  return {};
}

std::string Witness::judge_switch(SwitchNode& node, const std::vector<Packet>& sent) const {
  const std::vector<Held> held = held_by(inside(node));
  for (auto one = held.begin(); one != held.end(); ++one) {
    if (completes_ && one->identity == completed_) {
      return "a switch holds a fragment whose PARAMETER has passed";
    }
    const auto is_same = [&](const Held& other) { return other.identity == one->identity; };
    if (std::any_of(one + 1, held.end(), is_same)) return "a switch holds a fragment twice";
  }
  for (const Held& owed : owed_) {
    if (completes_ && owed.identity == completed_) continue;
    RankSet found;
    for (const Held& one : held) {
      if (one.identity == owed.identity) found |= one.ranks;
    }
    for (const Packet& packet : sent) {
      const ParsedPacket parsed = parse_packet(packet.bytes);
      if (!parsed.ok() || parsed.view().type() != PacketType::kGradient) continue;
      if (parsed.view().identity() == owed.identity) found |= parsed.view().ranks;
    }
    if (!found.contains(owed.ranks)) return "a switch has lost a contribution";
  }
  return {};
}

std::string Witness::judge_server(Server& server, const std::vector<Packet>& sent) const {
  for (const FinalFragment& before : final_) {
    const Fragment* after = find_fragment(server, before.job, before.stream, before.sequence);
    if (after == nullptr) continue;  // forgotten
    if (!after->complete() || after->next_index != before.next_index) {
      return "a complete fragment has changed";
    }
  }
  for (const Packet& packet : sent) {
    const ParsedPacket parsed = parse_packet(packet.bytes);
    if (!parsed.ok() || parsed.view().type() != PacketType::kParameter) continue;
    const atp_header& h = parsed.view().header;
    const Fragment* fragment = find_fragment(server, parsed.view().job(), h.stream, h.sequence);
    if (fragment == nullptr || !fragment->complete() || fragment->next_index != h.next_index) {
      return "a PARAMETER's next index is not that of its fragment";
    }
  }
  return {};
}

}  // namespace atp::explore
