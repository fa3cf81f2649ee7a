// Decides whether a JOIN may pass, notes the rank in its tree, and forwards JOIN and LEAVE.
#include "atp/core/dataplane/join_relay.h"

#include <algorithm>

#include "atp/core/dataplane/answers.h"
#include "atp/core/system_memory.h"
#include "atp/core/topology/proof.h"

namespace atp {
namespace {

bool has_one_rank(const RankSet& ranks) { return ranks.size() == 1; }

// Checks the JOIN on its own.
Refusal judge(const Arrival& in, const Join& join) {
  const RankSet& ranks = in.packet.ranks;
  if (!has_one_rank(ranks)) return {RefusalReason::kRank};
  if (ranks.lowest() >= join.world_size) {
    return {RefusalReason::kRank, join.world_size, ranks.lowest()};
  }
  if (in.packet.header.bitmap_words != bitmap_words_for(join.world_size)) {
    return {RefusalReason::kWorldSize};
  }
  if (join.stream_count > kMaxStreamsOfTree) {
    return {RefusalReason::kStreams, kMaxStreamsOfTree, join.stream_count};
  }
  if (join.version_min > ATP_VERSION || join.version_max < ATP_VERSION) {
    return {RefusalReason::kVersion, versions_number(ATP_VERSION, ATP_VERSION),
            versions_number(join.version_min, join.version_max)};
  }
  return {};
}

// Checks that the JOIN agrees with those of the job's other ranks behind this switch.
Refusal judge_agreement(SwitchTurn& turn, const JobKey& job, const Join& join) {
  const StreamRange streams{join.first_stream, join.stream_count};
  if (const Tree* other = turn.state.trees.conflicting(job, streams)) {
    return {RefusalReason::kStreams, streams_number(other->streams().first, other->streams().count),
            streams_number(streams.first, streams.count), other->known()};
  }
  const Tree* tree = turn.state.trees.find(job, streams.first);
  if (tree != nullptr && tree->world_size() != join.world_size) {
    return {RefusalReason::kWorldSize, static_cast<std::uint32_t>(tree->world_size()),
            join.world_size, tree->known()};
  }
  return {};
}

bool names(const Route& route, const Endpoint& hop) {
  return std::find(route.hops().begin(), route.hops().end(), hop) != route.hops().end();
}

// Moves this switch's entry from the remaining to the recorded route. False if there is no next hop
// or the route visits a node twice: DIRECT packets would circle forever. (A node with several
// addresses may still be visited twice; the hop limit ends that.)
bool pass_hop(Join& join) {
  if (join.remaining.size() < 2) return false;
  const Endpoint own = join.remaining.front();
  join.remaining.pop_front();
  if (names(join.remaining, own) || names(join.recorded, own)) return false;
  return !names(join.recorded, join.remaining.front()) && join.recorded.push_back(own);
}

// Checks the next hop.
Refusal judge_next_hop(const SwitchTurn& turn, const Endpoint& from, const Tree* tree, Rank rank,
                       std::uint64_t nonce, const Endpoint& next) {
  if (next == from) return {RefusalReason::kRoute};
  if (!turn.config.upstream.allows(next)) return {RefusalReason::kUpstream};
  if (tree == nullptr || tree->parent() == next) return {};
  // A tree has one parent: only a rank that is alone in it may move the tree. Anybody can apply, so
  // that keeps no member from it.
  const Membership& members = tree->membership();
  const bool is_member = members.knows(rank) && members.member(rank).nonce == nonce;
  const RankSet others = (is_member ? members.known() : tree->known()) - RankSet::of(rank);
  if (others.empty()) return {};
  return {.reason = RefusalReason::kRoute, .holders = others};
}

// Only switches speak for several ranks: a socket is one rank's. Anybody can apply, so applicants
// keep nobody out.
Refusal judge_socket(const Tree* tree, const Endpoint& from, Rank rank, const Join& join) {
  const bool is_from_worker = join.recorded.size() == 1;  // this switch
  if (tree == nullptr || !is_from_worker) return {};
  const RankSet others = tree->others_behind(from, rank);
  if (others.empty()) return {};
  return {.reason = RefusalReason::kSocket, .holders = others};
}

Refusal judge_room(const SwitchTurn& turn, const Join& join) {
  if (turn.state.trees.size() >= turn.config.max_trees || !turn.state.trees.shares().has_room()) {
    return {RefusalReason::kTooManyJobs, turn.config.max_trees};
  }
  const std::size_t left = turn.config.tree_memory_bytes - turn.state.trees.bytes();
  const std::size_t needed =
      Tree::bytes_needed(join.world_size, {join.first_stream, join.stream_count});
  if (needed > left) return memory_refusal(left, needed);
  return system_gives(needed) ? Refusal{} : memory_refusal(0, needed);
}

// Checks what the tenant's jobs may hold together.
Refusal judge_quota(const SwitchTurn& turn, const JobKey& job, const Quota& quota,
                    const Join& join) {
  if (quota == Quota{}) return {};
  QuotaCheck check(quota, job);
  for (const Tree& tree : turn.state.trees.trees()) {
    check.note(tree.job(), Tree::bytes_needed(tree.world_size(), tree.streams()));
  }
  return check.refusal(Tree::bytes_needed(join.world_size, {join.first_stream, join.stream_count}));
}

// Makes room for one more tree. If room is scarce, trees that only wait for leases to end are
// dropped: a rank whose LEAVE has not been acknowledged yet then asks the server directly.
Refusal make_room(SwitchTurn& turn, const Join& join) {
  const Refusal refusal = judge_room(turn, join);
  if (!refusal && !turn.state.trees.shares().partition_is_full()) return {};
  turn.count(SwitchCounter::kTreesDropped, turn.state.trees.drop_departed());
  return judge_room(turn, join);
}

void relay(SwitchTurn& turn, const Arrival& in, const Endpoint& next, const Join& join) {
  const atp_header& header = in.packet.header;
  const ControlHead head{.type = PacketType::kJoin,
                         .flags = header.flags,
                         .bitmap_words = header.bitmap_words,
                         .job = in.packet.job(),
                         .stream = header.stream,
                         .sequence = header.sequence,
                         .operation = header.operation};
  if (put_join(turn.out, head, in.packet.ranks, join)) turn.out.send_to(next);
}

}  // namespace

void handle_join(SwitchTurn& turn, const Arrival& in) {
  if (in.packet.has(ATP_FLAG_DIRECT)) return turn.count(SwitchCounter::kDropStraight);
  std::optional<Join> join = Join::read(in.packet.body);
  if (!join) return turn.count(SwitchCounter::kDropBadBody);
  const auto refuse = [&](const Refusal& refusal) {
    turn.count(SwitchCounter::kDropRefused);
    answer_refused(turn, in, *join, refusal);
  };

  if (join->proof != proof_of(turn.config.secret, in.packet.job(), in.from)) {
    turn.count(SwitchCounter::kJoinsUnproven);
    return ask_for_proof(turn, in.packet, join->first_stream, in.from, join->nonce);
  }
  if (const Refusal refusal = judge(in, *join)) return refuse(refusal);
  const Rank rank = in.packet.ranks.lowest();
  if (const Refusal refusal = Refusal::if_meant_for_another(join->remaining.front(), in.to)) {
    return refuse(refusal);
  }
  if (!pass_hop(*join)) return refuse({RefusalReason::kRoute});
  const Endpoint next = join->remaining.front();

  if (const Refusal refusal = judge_agreement(turn, in.packet.job(), *join)) {
    return refuse(refusal);
  }
  const StreamRange streams{join->first_stream, join->stream_count};
  Tree* tree = turn.state.trees.find(in.packet.job(), streams.first);
  if (tree != nullptr && tree->taken(rank, join->nonce, turn.now)) {
    turn.count(SwitchCounter::kDropRankTaken);
    answer_rank_taken(turn, in, *join, tree->membership().member(rank).child);
    return;
  }
  if (const Refusal refusal = judge_socket(tree, in.from, rank, *join)) return refuse(refusal);
  if (const Refusal refusal = judge_next_hop(turn, in.from, tree, rank, join->nonce, next)) {
    return refuse(refusal);
  }

  if (tree == nullptr) {
    if (turn.state.draining && !turn.state.trees.knows(in.packet.job())) {
      return refuse({RefusalReason::kDraining});
    }
    if (const Refusal refusal = make_room(turn, *join)) return refuse(refusal);
    const Quota quota = quota_of(turn.config.quotas, in.packet.job());
    if (const Refusal refusal = judge_quota(turn, in.packet.job(), quota, *join)) {
      return refuse(refusal);
    }
    tree = turn.state.trees.make(in.packet.job(), streams, join->world_size,
                                 turn.config.timing.lease, quota);
    turn.count(SwitchCounter::kTreesMade);
  }
  tree->note_join(turn.now, rank, in.from, next, *join);
  join->proof = tree->proof();
  join->max_value_count = std::min(join->max_value_count, turn.config.max_value_count);
  relay(turn, in, next, *join);
  turn.count(SwitchCounter::kJoinsRelayed);
}

void handle_leave(SwitchTurn& turn, const Arrival& in) {
  if (in.packet.has(ATP_FLAG_DIRECT)) return turn.count(SwitchCounter::kDropStraight);
  const std::optional<Leave> leave = Leave::read(in.packet.body);
  if (!leave || !has_one_rank(in.packet.ranks)) {
    return turn.count(SwitchCounter::kDropBadBody);
  }
  Tree* tree = turn.state.trees.find(in.packet.job(), in.packet.header.stream);
  if (tree == nullptr) {
    turn.count(SwitchCounter::kDropUnknownJob);
    return answer_unknown(turn, in, in.packet.ranks);
  }
  if (in.packet.header.bitmap_words != tree->bitmap_words()) {
    return turn.count(SwitchCounter::kDropWrongBitmapWidth);
  }
  const Rank rank = in.packet.ranks.lowest();
  if (!tree->membership().behind(in.from).contains(rank)) {
    turn.count(SwitchCounter::kDropUnknownChild);
    return answer_unknown(turn, in, in.packet.ranks);
  }
  if (tree->membership().member(rank).nonce != leave->nonce) {
    return turn.count(SwitchCounter::kDropWrongNonce);
  }
  tree->leave(rank);
  turn.out.pass_on(tree->parent(), in.packet.bytes);
  turn.count(SwitchCounter::kLeavesRelayed);
}

}  // namespace atp
