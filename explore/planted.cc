#include "explore/planted.h"

#include <algorithm>
#include <array>
#include <utility>

namespace atp::explore {
namespace {

bool is_plain_gradient(const PacketView& packet) {
  return packet.type() == PacketType::kGradient && !packet.has(ATP_FLAG_DIRECT) &&
         !packet.has(ATP_FLAG_RESEND);
}

// The aggregators that a packet will meet at a switch.
struct Met {
  atp_aggregator* place = nullptr;  // null: it meets none
  atp_aggregator* home = nullptr;
  bool has = false;  // the place holds the packet's fragment

  bool away() const { return place != home; }
};

Met meeting_of(Node& node, const PacketView& packet) {
  auto* switch_node = std::get_if<SwitchNode>(&node);
  if (switch_node == nullptr) return {};
  SwitchState& state = inside(*switch_node);
  const Tree* tree = state.trees.find(packet.job(), packet.header.stream);
  if (tree == nullptr) return {};
  const PlaceFound found = state.find(state.trees.shares().region(tree->share()), packet.header);
  return {&state.aggregators[found.slot], &state.aggregators[found.home], found.has};
}

// The aggregator that the packet will meet, if it holds a sum of the packet's stream.
atp_aggregator* met_by(Node& node, const PacketView& packet) {
  atp_aggregator* place = meeting_of(node, packet).place;
  const bool holds = place != nullptr && place->state == ATP_AGGREGATING &&
                     atp_same_stream(&place->identity, &packet.header);
  return holds ? place : nullptr;
}

// Marks an aggregator until the end of the turn, in a byte that the product leaves alone.
void mark(atp_aggregator& aggregator) { aggregator.zero[0] = 1; }

// The aggregator that is marked, no longer so; null if none is.
atp_aggregator* take_marked(Node& node) {
  auto* switch_node = std::get_if<SwitchNode>(&node);
  if (switch_node == nullptr) return nullptr;
  AggregatorTable& aggregators = inside(*switch_node).aggregators;
  for (std::uint32_t slot = 0; slot < aggregators.size(); ++slot) {
    if (std::exchange(aggregators[slot].zero[0], 0) != 0) return &aggregators[slot];
  }
  return nullptr;
}

// What an aggregator holds is not found while it is another incarnation's.
constexpr atp_u32 kHidden = atp_u32{1} << 31;

void hide(atp_aggregator& aggregator) {
  mark(aggregator);
  aggregator.identity.incarnation ^= kHidden;
}

void reveal(Node& node, const PacketView&, std::vector<Packet>&) {
  if (atp_aggregator* hidden = take_marked(node)) hidden->identity.incarnation ^= kHidden;
}

void drop(std::vector<Packet>& sent, PacketType type) {
  std::erase_if(sent, [type](const Packet& packet) {
    return packet.bytes[ATP_AT_TYPE] == static_cast<std::uint8_t>(type);
  });
}

void add_without_overlap_test(Node& node, const PacketView& packet) {
  atp_aggregator* aggregator = met_by(node, packet);
  if (aggregator == nullptr || !is_plain_gradient(packet)) return;
  if (aggregator->identity.sequence != packet.header.sequence) return;
  aggregator->bitmap[0] &= ~packet.ranks.words()[0];
}

void ignore_sequence(Node& node, const PacketView& packet) {
  atp_aggregator* aggregator = met_by(node, packet);
  if (aggregator == nullptr || !is_plain_gradient(packet)) return;
  aggregator->identity.sequence = packet.header.sequence;
}

void discard_what_is_flushed(Node& node, const PacketView& packet, std::vector<Packet>& sent) {
  if (!std::holds_alternative<SwitchNode>(node)) return;
  const bool flushes = packet.type() == PacketType::kFlush ||
                       (packet.type() == PacketType::kGradient && packet.has(ATP_FLAG_RESEND) &&
                        !packet.has(ATP_FLAG_DIRECT));
  if (flushes) drop(sent, PacketType::kGradient);
}

void release_whatever_is_held(Node& node, const PacketView& packet) {
  if (packet.type() != PacketType::kParameter) return;
  if (atp_aggregator* aggregator = met_by(node, packet)) {
    aggregator->identity.sequence = packet.header.sequence;
    aggregator->identity.operation = packet.header.operation;
  }
}

void lose_magnitude(Node& node, const PacketView& packet, std::vector<Packet>&) {
  if (packet.type() != PacketType::kGradient) return;
  if (atp_aggregator* aggregator = met_by(node, packet)) aggregator->magnitude = 0;
}

void claim_free_home(Node& node, const PacketView& packet) {
  const Met met = meeting_of(node, packet);
  if (!is_plain_gradient(packet) || !met.has) return;
  if (met.away() && met.home->state == ATP_EMPTY) hide(*met.place);
}

void release_only_at_home(Node& node, const PacketView& packet) {
  const Met met = meeting_of(node, packet);
  if (packet.type() == PacketType::kParameter && met.has && met.away()) hide(*met.place);
}

// During a turn, a place has its home's notes, and the home those of the place.
void swap_passed(atp_aggregator& place, atp_aggregator& home) {
  std::swap(place.passed, home.passed);
  std::swap(place.any_passed, home.any_passed);
}

void swap_returned(atp_aggregator& place, atp_aggregator& home) {
  std::swap(place.returned, home.returned);
  std::swap(place.any_returned, home.any_returned);
}

template <auto swap_notes>
void note_at_place(Node& node, const PacketView& packet) {
  const Met met = meeting_of(node, packet);
  if (!met.away()) return;
  mark(*met.place);
  swap_notes(*met.place, *met.home);
}

template <auto swap_notes>
void keep_at_place(Node& node, const PacketView& packet, std::vector<Packet>&) {
  if (atp_aggregator* place = take_marked(node)) {
    swap_notes(*place, *meeting_of(node, packet).home);
  }
}

void add_at_server_without_overlap_test(Node& node, const PacketView& packet) {
  auto* server = std::get_if<Server>(&node);
  if (server == nullptr || packet.type() != PacketType::kGradient) return;
  const atp_header& h = packet.header;
  Fragment* fragment = find_fragment(*server, packet.job(), h.stream, h.sequence);
  if (fragment != nullptr && !fragment->complete()) fragment->bitmap -= packet.ranks;
}

// Makes the server ignore requests for a complete result.
void leave_repeats_unanswered(Node& node, const PacketView& packet) {
  auto* server = std::get_if<Server>(&node);
  if (server == nullptr || packet.type() != PacketType::kGradient) return;
  const atp_header& h = packet.header;
  Fragment* fragment = find_fragment(*server, packet.job(), h.stream, h.sequence);
  // Marks all ranks as answered in the far future, so that no request is ever answered.
  if (fragment != nullptr && fragment->complete()) {
    fragment->answered = {RankSet::first(kMaxRanks), Instant::max() - std::chrono::hours(1)};
  }
}

constexpr std::array kBugs{
    Bug{"switch-adds-twice", "a switch adds without an overlap test", "one-fragment",
        add_without_overlap_test, nullptr},
    Bug{"switch-mixes", "a switch confuses fragments of one stream", "two-fragments",
        ignore_sequence, nullptr},
    Bug{"switch-discards", "RESEND or FLUSH releases a sum and does not send it", "one-fragment",
        nullptr, discard_what_is_flushed},
    Bug{"switch-releases", "a PARAMETER releases whatever the aggregator holds", "two-fragments",
        release_whatever_is_held, nullptr},
    Bug{"switch-loses-magnitude", "a switch forgets that a sum may overflow", "overflow", nullptr,
        lose_magnitude},
    Bug{"switch-claims-twice", "a switch takes a free home though another place has the fragment",
        "two-places", claim_free_home, reveal},
    Bug{"switch-releases-at-home", "a PARAMETER releases a fragment only at its home", "two-places",
        release_only_at_home, reveal},
    Bug{"switch-misplaces-passed", "the note of what passed is kept at its place, not at its home",
        "quota", note_at_place<swap_passed>, keep_at_place<swap_passed>},
    Bug{"switch-misplaces-returned",
        "the note of what returned is kept at its place, not at its home", "two-places",
        note_at_place<swap_returned>, keep_at_place<swap_returned>},
    Bug{"server-adds-twice", "the server adds without an overlap test", "two-levels",
        add_at_server_without_overlap_test, nullptr},
    Bug{"server-silent", "repeats of a complete fragment go unanswered", "one-fragment",
        leave_repeats_unanswered, nullptr},
};

}  // namespace

std::span<const Bug> planted_bugs() { return kBugs; }

const Bug* find_bug(std::string_view name) {
  const auto* at =
      std::find_if(kBugs.begin(), kBugs.end(), [&](const Bug& bug) { return name == bug.name; });
  return at == kBugs.end() ? nullptr : at;
}

}  // namespace atp::explore
