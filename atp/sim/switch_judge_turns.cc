// The turns of a switch, messages that only pass it, and the sweep.
#include <algorithm>

#include "atp/sim/parameter_bytes.h"
#include "atp/sim/switch_judge.h"
#include "atp/wire/join.h"
#include "atp/wire/status.h"

namespace atp::sim {
namespace {

using S = SwitchCounter;

bool is(std::span<const std::uint8_t> bytes, PacketType type) {
  return bytes[ATP_AT_TYPE] == static_cast<std::uint8_t>(type);
}

bool changes_trees(std::span<const std::uint8_t> bytes) {
  return bytes.size() > ATP_AT_TYPE && bytes[ATP_AT_TYPE] >= ATP_JOIN;
}

bool holds(const Tree& tree, const PacketView& packet) {
  return tree.job() == packet.job() && tree.streams().contains(packet.header.stream);
}

}  // namespace

void SwitchJudge::begin(const SwitchNode& node, std::span<const std::uint8_t> bytes) {
  before_ = node.counters();
  sweep_at_ = node.next_timeout();
  trees_before_.clear();
  if (!changes_trees(bytes)) return;
  node.for_each_tree([&](const Tree& tree, const atp_share&) { trees_before_.push_back(tree); });
}

void SwitchJudge::begin_anew() {
  cells_.clear();
  notes_.clear();
  held_.clear();
  contested_ = 0;
  period_ = 1;
  claims_ = 0;
  active_in_.clear();
  highest_parameter_.clear();
  proofs_.begin_anew();
  told_by_parent_.clear();
  queue_empty_at_ = {};
}

void SwitchJudge::end_packet(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                             const SwitchNode& node, const Outbox& out) {
  const ParsedPacket parsed = parse_packet(bytes);
  if (!parsed.ok()) return;
  Turn turn{now, from, parsed.view(), node, out};
  node.for_each_tree([&](const Tree& tree, const atp_share& share) {
    if (!holds(tree, turn.packet)) return;
    turn.tree = &tree;
    turn.share = share;
  });
  if (turn.packet.header.hops == 0) {
    if (!out.empty()) object("a packet that may go no further was forwarded");
    return;
  }
  switch (turn.packet.type()) {
    case PacketType::kGradient: judge_gradient(turn); break;
    case PacketType::kJoin: judge_join(turn); break;
    case PacketType::kLeave: judge_leave(turn); break;
    default: judge_downward(turn);
  }
  if (changes_trees(bytes)) expect_no_phantom(turn);
  proofs_.expect_receivers(from, bytes, out, [&](const std::string& what) { object(what); });
  forget_limits(node);
  expect_in_use(node);
}

void SwitchJudge::end_timeout(Instant now, const SwitchNode& node, const Outbox& out) {
  if (now < sweep_at_) return;
  std::vector<Sum> leaving;
  for (auto& [slot, cell] : cells_) {
    if (!is_expired(cell, now)) continue;
    add_swept(node, cell, leaving);
    release_other(node, cell);
  }
  expect(node, S::kSweptSumsSent, leaving.size());
  expect_sums(now, out, leaving);
  forget_limits(node);
  expect_in_use(node);
}

// A sum whose tree is forgotten has nowhere to go.
void SwitchJudge::add_swept(const SwitchNode& node, const Cell& cell, std::vector<Sum>& leaving) {
  node.for_each_tree([&](const Tree& tree, const atp_share&) {
    if (tree.job() != cell.identity.job) return;
    if (!tree.streams().contains(cell.identity.stream)) return;
    leaving.push_back({cell.identity, cell.ranks,
                       static_cast<std::uint8_t>(cell.flags | ATP_FLAG_RESEND), cell.hops,
                       cell.magnitude, tree.parent()});
  });
}

// Only the parent's messages go down, and only to children with addressed ranks.
void SwitchJudge::judge_downward(const Turn& turn) {
  const bool is_control = changes_trees(turn.packet.bytes);
  if (turn.packet.type() == PacketType::kStatus && StatusMessage::answer_to(turn.packet)) {
    return judge_question(turn);
  }
  const Tree* tree = is_control ? tree_before(turn.packet) : turn.tree;
  const bool is_accepted = tree != nullptr && turn.from == tree->parent() &&
                           turn.packet.header.bitmap_words == tree->bitmap_words();
  if (!is_accepted) {
    if (!turn.out.empty()) object("a downward message not from the parent was accepted");
    return;
  }
  if (turn.packet.type() == PacketType::kFlush && judge_flush(turn)) return;
  if (turn.packet.type() == PacketType::kParameter) judge_parameter(turn);
  const auto status =
      turn.packet.type() == PacketType::kStatus ? StatusMessage::read(turn.packet) : std::nullopt;
  if (status && status->code == StatusCode::kProve) return judge_prove(turn, *tree, *status);
  if (turn.packet.type() == PacketType::kStatus) judge_detached(turn, *tree);
  const bool is_ack = turn.packet.type() == PacketType::kJoinAck && turn.tree != nullptr;
  expect_copies(turn, is_ack ? *turn.tree : *tree);
}

// The question of a rank that has joined, or wants to, goes up as far as it says, and is answered
// there; a stranger's is answered here. Either way one packet of its size comes out, or none to a
// stranger whose answers are paced.
void SwitchJudge::judge_question(const Turn& turn) {
  if (turn.packet.header.hops == 0) return;
  const Tree* tree = tree_before(turn.packet);
  const RankSet& ranks = turn.packet.ranks;
  RankSet theirs = tree == nullptr ? RankSet{} : tree->membership().behind(turn.from);
  if (tree != nullptr) {
    for (const Applicant& applicant : tree->applicants()) {
      if (applicant.statement.child == turn.from) theirs.insert(applicant.rank);
    }
  }
  const bool is_theirs = tree != nullptr && !ranks.empty() && theirs.contains(ranks) &&
                         turn.packet.header.bitmap_words == tree->bitmap_words();
  const int passed = ATP_HOPS - turn.packet.header.hops;
  const int wanted = std::min<int>(atp_load16(&turn.packet.body[2]), Route::kMaxHops);
  const bool goes_up = is_theirs && passed >= 0 && passed < wanted;
  const auto packets = turn.out.packets();
  if (packets.size() > 1 || (is_theirs && packets.empty())) {
    return object("a question led to " + std::to_string(packets.size()) + " packets");
  }
  for (const OutPacket& packet : packets) {
    if (packet.to != (goes_up ? tree->parent() : turn.from)) {
      object(goes_up ? "a question was not passed on" : "a question was not answered by its node");
    }
    if (turn.out.bytes_of(packet).size() > turn.packet.bytes.size()) {
      object("an answer is larger than its question");
    }
  }
}

void SwitchJudge::expect_copies(const Turn& turn, const Tree& tree) {
  std::vector<Endpoint> wanted;
  for (const Child& child : tree.membership().children()) {
    if (child.ranks.intersects(turn.packet.ranks)) wanted.push_back(child.endpoint);
  }
  const std::size_t members = wanted.size();
  add_applicants(turn, tree, wanted);
  std::vector<std::uint8_t> bytes(turn.packet.bytes.begin(), turn.packet.bytes.end());
  --bytes[ATP_AT_HOPS];
  const bool has_part = turn.packet.type() == PacketType::kParameter;
  if (has_part) bytes[kAtPart] = part_said(turn);
  std::vector<Endpoint> found;
  for (const OutPacket& packet : turn.out.packets()) {
    const auto went = turn.out.bytes_of(packet);
    if (is(went, PacketType::kGradient)) continue;  // a sum that was reclaimed
    if (has_part && went.size() > kAtPart && went[kAtPart] != bytes[kAtPart]) {
      return object("a PARAMETER left with the part " + std::to_string(went[kAtPart]) +
                    " instead of " + std::to_string(bytes[kAtPart]));
    }
    if (!std::equal(went.begin(), went.end(), bytes.begin(), bytes.end())) {
      return object("a downward message was changed");
    }
    found.push_back(packet.to);
  }
  const bool is_readable =
      turn.packet.type() == PacketType::kJoinAck  ? JoinAck::read(turn.packet.body).has_value()
      : turn.packet.type() == PacketType::kStatus ? StatusMessage::read(turn.packet).has_value()
                                                  : true;
  if (!is_readable) wanted.clear();
  // An answer that is withheld for its rate.
  const bool is_withheld =
      turn.node.counters()[S::kStatusesWithheld] > before_[S::kStatusesWithheld];
  if (is_withheld && wanted.size() > members) wanted.resize(members);
  if (found != wanted) {
    object("a downward message went to " + std::to_string(found.size()) + " children instead of " +
           std::to_string(wanted.size()));
  }
}

// The answer to a JOIN also goes to where the JOIN came from. What goes to all does so only while
// the job is joining. Nothing else does.
void SwitchJudge::add_applicants(const Turn& turn, const Tree& tree,
                                 std::vector<Endpoint>& wanted) const {
  const std::optional<JoinAck> ack =
      turn.packet.type() == PacketType::kJoinAck ? JoinAck::read(turn.packet.body) : std::nullopt;
  const std::optional<StatusMessage> status = StatusMessage::read(turn.packet);
  const bool is_status = turn.packet.type() == PacketType::kStatus && status;
  if (!ack && !is_status) return;
  const std::uint64_t nonce = ack ? ack->nonce : status->nonce;
  for (const Applicant& applicant : tree.applicants()) {
    const bool is_its =
        nonce == 0 ? is_status && tree.joining() : applicant.statement.nonce == nonce;
    const Endpoint& child = applicant.statement.child;
    if (is_its && turn.packet.ranks.contains(applicant.rank) &&
        std::find(wanted.begin(), wanted.end(), child) == wanted.end()) {
      wanted.push_back(child);
    }
  }
}

const Tree* SwitchJudge::tree_before(const PacketView& packet) const {
  const auto found = std::find_if(trees_before_.begin(), trees_before_.end(),
                                  [&](const Tree& tree) { return holds(tree, packet); });
  return found == trees_before_.end() ? nullptr : &*found;
}

// A stream's limit is forgotten together with its tree, and so is what the parent has told.
void SwitchJudge::forget_limits(const SwitchNode& node) {
  if (node.counters()[S::kTreesDropped] == before_[S::kTreesDropped]) return;
  const auto is_over = [&](const auto& of_stream) {
    bool is_known = false;
    node.for_each_tree([&](const Tree& tree, const atp_share&) {
      const auto& [job, stream] = of_stream.first;
      is_known |= tree.job() == job && tree.streams().contains(stream);
    });
    return !is_known;
  };
  std::erase_if(highest_parameter_, is_over);
  std::erase_if(told_by_parent_, is_over);
}

void SwitchJudge::expect_separate_regions(const SwitchNode& node) {
  if (config_.sharing.partitions == 0) return;
  std::map<std::uint32_t, std::uint32_t> job_of_region;
  node.for_each_tree([&](const Tree& tree, const atp_share& share) {
    if (share.size == 0) return;
    const auto [found, is_first] = job_of_region.emplace(share.first, tree.job().job);
    if (!is_first && found->second != tree.job().job) object("two jobs have one region");
  });
}

// Checks the GRADIENTs that leave, which must be in this order.
void SwitchJudge::expect_sums(Instant now, const Outbox& out, const std::vector<Sum>& wanted) {
  std::size_t found = 0;
  for (const OutPacket& packet : out.packets()) {
    const auto bytes = out.bytes_of(packet);
    if (!is(bytes, PacketType::kGradient)) continue;
    const ParsedPacket parsed = parse_packet(bytes);
    if (found == wanted.size()) return object("a GRADIENT left that should have stayed");
    const Sum& sum = wanted[found++];
    const std::uint8_t ecn = meets_congestion(now, bytes.size()) ? ATP_FLAG_ECN : 0;
    const atp_header& header = parsed.view().header;
    if (packet.to != sum.parent) object("a GRADIENT went elsewhere than to the parent");
    if (parsed.view().identity() != sum.identity) object("a GRADIENT left as another fragment");
    if (parsed.view().ranks != sum.ranks) object("a GRADIENT left for other ranks");
    if (header.flags != (sum.flags | ecn)) {
      object("a GRADIENT left with flags " + std::to_string(header.flags) + " instead of " +
             std::to_string(sum.flags | ecn));
    }
    if (header.hops + 1 != sum.hops) object("a GRADIENT left with the wrong hop count");
    if (header.magnitude != sum.magnitude) object("a GRADIENT left with another magnitude");
  }
  if (found < wanted.size()) object("a GRADIENT stayed that should have left");
}

// The queue that the uplink would have: bytes sent drain at its rate, and it holds up to sixteen
// thresholds.
bool SwitchJudge::meets_congestion(Instant now, std::size_t bytes) {
  if (config_.uplink_bits_per_s == 0) return false;
  const Duration most = 16 * config_.ecn_threshold;
  const Duration waiting = std::clamp(queue_empty_at_ - now, Duration{0}, most);
  const auto sending =
      static_cast<Duration::rep>((bytes + 66) * 8 * 1'000'000'000 / config_.uplink_bits_per_s);
  queue_empty_at_ = now + waiting + Duration{sending};
  return waiting + Duration{sending} > config_.ecn_threshold;
}

void SwitchJudge::expect_in_use(const SwitchNode& node) {
  const std::uint64_t held = held_by_all();
  if (node.aggregators_in_use() == held) return;
  object(std::to_string(node.aggregators_in_use()) + " aggregators are in use instead of " +
         std::to_string(held));
}

void SwitchJudge::expect(const SwitchNode& node, SwitchCounter counter, std::uint64_t times) {
  const std::uint64_t risen = node.counters()[counter] - before_[counter];
  if (risen == times) return;
  object(std::string(to_string(counter)) + " rose by " + std::to_string(risen) + " instead of " +
         std::to_string(times));
}

void SwitchJudge::object(const std::string& what) {
  if (violations_.size() < kMaxViolations)
    violations_.push_back("not allowed by the protocol: " + what);
}

}  // namespace atp::sim
