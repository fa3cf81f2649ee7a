// Where JOINs and LEAVEs go, and who is behind whom after them.
#include <algorithm>

#include "atp/sim/switch_judge.h"
#include "atp/wire/join.h"
#include "atp/wire/status.h"

namespace atp::sim {
namespace {

bool names(const Route& route, const Endpoint& hop) {
  return std::find(route.hops().begin(), route.hops().end(), hop) != route.hops().end();
}

}  // namespace

void SwitchJudge::judge_join(const Turn& turn) {
  const std::optional<Join> came = Join::read(turn.packet.body);
  for (const OutPacket& packet : turn.out.packets()) {
    const ParsedPacket parsed = parse_packet(turn.out.bytes_of(packet));
    if (!parsed.ok() || parsed.view().type() != PacketType::kJoin) continue;
    const std::optional<Join> went = Join::read(parsed.view().body);
    if (!came || !went || turn.packet.has(ATP_FLAG_DIRECT)) {
      object("a JOIN went on that nobody can read, or that came straight");
      continue;
    }
    judge_route(*came, *went, turn, packet.to);
    if (went->max_value_count != std::min(came->max_value_count, config_.max_value_count)) {
      object("a JOIN went on with another K than there is room for");
    }
    const Member* holder = member_before(turn);
    if (holder != nullptr && holder->nonce != came->nonce && holder->lease_end > turn.now &&
        !tree_before(turn.packet)->left().contains(turn.packet.ranks.lowest())) {
      object("a JOIN took a rank that another socket holds");
    }
    expect_member(turn, *came);
  }
  expect_separate_regions(turn.node);
  expect_room(turn.node);
}

void SwitchJudge::expect_room(const SwitchNode& node) {
  std::size_t bytes = 0;
  node.for_each_tree([&](const Tree& tree, const atp_share&) {
    bytes += Tree::bytes_needed(tree.world_size(), tree.streams());
  });
  if (bytes > config_.tree_memory_bytes) object("trees take more memory than they may");
  if (node.trees() > config_.max_trees) object("more trees than there may be");
}

// Of the rank that the packet names.
const Member* SwitchJudge::member_before(const Turn& turn) const {
  const Tree* tree = tree_before(turn.packet);
  const Rank rank = turn.packet.ranks.lowest();
  const bool is_known = tree != nullptr && tree->membership().knows(rank);
  return is_known ? &tree->membership().member(rank) : nullptr;
}

// After its JOIN a rank stands behind who sent it, and nowhere else, for a lease. Of two statements
// the one with the higher number of detachments counts; at equal numbers, *attached*.
void SwitchJudge::expect_member(const Turn& turn, const Join& join) {
  if (turn.tree == nullptr) return object("a JOIN went on and nobody remembers it");
  const Rank rank = turn.packet.ranks.lowest();
  const Membership& members = turn.tree->membership();
  for (const Child& child : members.children()) {
    if (child.ranks.contains(rank) != (child.endpoint == turn.from)) {
      object("a rank stands behind another child than its JOIN's");
    }
  }
  if (members.member(rank).lease_end != turn.now + config_.timing.lease) {
    object("a JOIN did not renew the lease");
  }
  const Member* before = member_before(turn);
  if (before != nullptr && before->nonce != join.nonce) before = nullptr;  // of another socket
  bool detached = join.detached;
  if (before != nullptr && before->detachments == join.detachments) detached &= before->detached;
  if (before != nullptr && before->detachments > join.detachments) detached = before->detached;
  if (members.attached().contains(rank) == detached) {
    object(detached ? "an older JOIN attached a rank" : "a JOIN did not attach its rank");
  }
}

// STATUS *detached* counts where its number is higher than the one known.
void SwitchJudge::judge_detached(const Turn& turn, const Tree& before) {
  const std::optional<StatusMessage> status = StatusMessage::read(turn.packet);
  if (!status || status->code != StatusCode::kDetached || turn.tree == nullptr) return;
  std::size_t i = 0;
  status->about.for_each([&](Rank rank) {
    const std::uint32_t number = status->numbers[i++];
    if (!before.membership().knows(rank)) return;
    const Member& member = before.membership().member(rank);
    const bool detached = member.detached || number > member.detachments;
    if (turn.tree->membership().attached().contains(rank) == detached) {
      object("*detached* was believed, or not, against its number");
    }
  });
}

void SwitchJudge::judge_route(const Join& came, const Join& went, const Turn& turn,
                              const Endpoint& to) {
  Route remaining = came.remaining;
  if (remaining.size() < 2) return object("a JOIN whose route ends here went on");
  const Endpoint own = remaining.front();
  remaining.pop_front();
  Route recorded = came.recorded;
  const bool comes_back = names(remaining, own) || names(recorded, own) ||
                          names(recorded, remaining.front()) || remaining.front() == turn.from;
  if (comes_back) object("a JOIN went on whose route comes back");
  recorded.push_back(own);
  if (to != remaining.front() || went.remaining != remaining || went.recorded != recorded) {
    object("a JOIN went on with another route");
  }
  if (!config_.upstream.allows(to)) object("a JOIN went to where nothing may be sent");
}

void SwitchJudge::judge_leave(const Turn& turn) {
  for (const OutPacket& packet : turn.out.packets()) {
    if (turn.out.bytes_of(packet)[ATP_AT_TYPE] != ATP_LEAVE) continue;
    const Tree* tree = tree_before(turn.packet);
    const std::optional<Leave> leave = Leave::read(turn.packet.body);
    const Rank rank = turn.packet.ranks.lowest();
    const bool is_meant = tree != nullptr && leave && tree->membership().knows(rank) &&
                          tree->membership().member(rank).nonce == leave->nonce &&
                          tree->membership().member(rank).child == turn.from;
    if (!is_meant || packet.to != tree->parent()) object("a LEAVE of somebody else went on");
  }
}

}  // namespace atp::sim
