#include "models/planted.h"

#include <algorithm>
#include <array>

namespace atp::models {
namespace {

bool is_plain_gradient(const PacketView& packet) {
  return packet.type() == PacketType::kGradient && !packet.has(ATP_FLAG_DIRECT) &&
         !packet.has(ATP_FLAG_RESEND);
}

// The aggregator that the packet will meet at a switch, if it holds a sum of the packet's stream;
// all worlds have one aggregator.
atp_aggregator* met_by(Node& node, const PacketView& packet) {
  auto* switch_node = std::get_if<SwitchNode>(&node);
  if (switch_node == nullptr) return nullptr;
  atp_aggregator& aggregator = inside(*switch_node).aggregators[0];
  const bool holds =
      aggregator.state == ATP_AGGREGATING && atp_same_stream(&aggregator.identity, &packet.header);
  return holds ? &aggregator : nullptr;
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

}  // namespace atp::models
