// Where JOINs and LEAVEs must go, and which ranks are behind whom after them.
#include <algorithm>
#include <map>
#include <set>

#include "atp/core/dataplane/join_relay.h"
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
  if (!judge_proof(turn, came)) return;
  std::size_t passed = 0;
  for (const OutPacket& packet : turn.out.packets()) {
    const ParsedPacket parsed = parse_packet(turn.out.bytes_of(packet));
    if (!parsed.ok() || parsed.view().type() != PacketType::kJoin) continue;
    ++passed;
    const std::optional<Join> went = Join::read(parsed.view().body);
    if (!came || !went || turn.packet.has(ATP_FLAG_DIRECT)) {
      object("an unreadable or straight JOIN was forwarded");
      continue;
    }
    judge_route(*came, *went, turn, packet.to);
    judge_proof_of_own(turn, *went, packet.to);
    if (went->max_value_count != std::min(came->max_value_count, config_.max_value_count)) {
      object("a JOIN was forwarded with a K that is not the lower of its own and the switch's");
    }
    const Member* holder = member_before(turn);
    if (holder != nullptr && holder->nonce != came->nonce && holder->lease_end > turn.now &&
        !tree_before(turn.packet)->left().contains(turn.packet.ranks.lowest())) {
      object("a JOIN took a rank that another socket holds");
    }
    if (!has_socket_of_its_own(turn, *came)) object("a socket joined as two ranks");
    expect_member(turn, *came);
  }
  if (passed > 1) object("a JOIN was forwarded more than once");
  if (passed == 0 && came && must_pass(turn, *came)) {
    object("a JOIN was not forwarded");
  }
  expect_separate_regions(turn.node);
  expect_room(turn.node);
}

// Whether the JOIN counts here. If not, it changes nothing.
bool SwitchJudge::judge_proof(const Turn& turn, const std::optional<Join>& came) {
  if (!came || turn.packet.has(ATP_FLAG_DIRECT)) return true;
  const auto note = [&](const std::string& what) { object(what); };
  if (proofs_.end_join(turn.from, turn.packet, *came, turn.out, note)) return true;
  std::vector<Tree> trees;
  turn.node.for_each_tree([&](const Tree& tree, const atp_share&) { trees.push_back(tree); });
  if (trees != trees_before_) object("a JOIN without a right proof changed a tree");
  return false;
}

// What is passed on has the switch's own proof, as the parent has last told it for this tree.
void SwitchJudge::judge_proof_of_own(const Turn& turn, const Join& went, const Endpoint& to) {
  Told& told = told_by_parent_[{turn.packet.job(), went.first_stream}];
  if (told.parent != to) told = {to};
  if (went.proof != told.proof)
    object("a JOIN was forwarded with a proof that is not the parent's");
}

// The parent's *prove* ends here. The child whose JOIN it answers gets another one, with its own
// proof.
void SwitchJudge::judge_prove(const Turn& turn, const Tree& before, const StatusMessage& status) {
  std::optional<Endpoint> child;
  turn.packet.ranks.for_each([&](Rank rank) {
    const Membership& members = before.membership();
    if (members.knows(rank) && members.member(rank).nonce == status.nonce) {
      child = members.member(rank).child;
    }
  });
  for (const Applicant& applicant : before.applicants()) {
    const bool is_its = applicant.statement.nonce == status.nonce;
    if (is_its && turn.packet.ranks.contains(applicant.rank)) child = applicant.statement.child;
  }
  const auto packets = turn.out.packets();
  if (packets.size() != (child ? 1 : 0)) {
    return object("*prove* led to " + std::to_string(packets.size()) + " packets");
  }
  if (!child) return;
  told_by_parent_[{turn.packet.job(), before.streams().first}] = {before.parent(), status.proof()};
  const ParsedPacket parsed = parse_packet(turn.out.bytes_of(packets[0]));
  const auto own = parsed.ok() ? StatusMessage::read(parsed.view()) : std::nullopt;
  const bool is_its = own && own->code == StatusCode::kProve && packets[0].to == *child &&
                      own->nonce == status.nonce && parsed.view().ranks == turn.packet.ranks;
  if (!is_its) return object("*prove* was not passed on to the child whose JOIN it answers");
  if (own->proof() != proofs_.told(turn.packet.job(), *child)) {
    object("a child was told another proof than its own");
  }
}

void SwitchJudge::expect_room(const SwitchNode& node) {
  std::size_t bytes = 0;
  std::map<std::uint32_t, std::set<std::uint32_t>> jobs_of_tenant;
  node.for_each_tree([&](const Tree& tree, const atp_share&) {
    bytes += Tree::bytes_needed(tree.world_size(), tree.streams());
    const JobKey& job = tree.job();
    const std::uint32_t most = quota_of(config_.quotas, job.tenant).jobs;
    std::set<std::uint32_t>& jobs = jobs_of_tenant[job.tenant];
    jobs.insert(job.job);
    if (most != 0 && jobs.size() > most) {
      object("a tenant has more jobs than it may");
    }
  });
  if (bytes > config_.tree_memory_bytes) object("trees take more memory than allowed");
  if (node.trees() > config_.max_trees) object("more trees than allowed");
}

// Whether there is no reason to refuse the JOIN: it is consistent and agrees with the switch's
// state of its job, holds its rank or takes a free one, and needs no room or finds plenty.
bool SwitchJudge::must_pass(const Turn& turn, const Join& join) const {
  const RankSet& ranks = turn.packet.ranks;
  const bool agrees_with_itself =
      !turn.packet.has(ATP_FLAG_DIRECT) && ranks.size() == 1 && ranks.lowest() < join.world_size &&
      turn.packet.header.bitmap_words == (join.world_size + 63) / 64 &&
      join.version_min <= ATP_VERSION && join.version_max >= ATP_VERSION &&
      join.stream_count <= kMaxStreamsOfTree;
  if (!agrees_with_itself || !may_follow(turn, join)) return false;
  const StreamRange streams{join.first_stream, join.stream_count};
  bool has_others = false;
  for (const Tree& tree : trees_before_) {
    has_others |= tree.job() == turn.packet.job() && tree.streams() != streams &&
                  tree.streams().overlaps(streams);
  }
  if (has_others) return false;
  const Tree* tree = tree_before(turn.packet);
  if (tree == nullptr) return has_plenty(turn.packet.header.tenant, join);
  const Member* holder = member_before(turn);
  const bool is_its = holder != nullptr && holder->nonce == join.nonce;
  const bool is_alone = is_its && tree->membership().known().size() == 1;
  return tree->world_size() == join.world_size && (holder == nullptr || is_its) &&
         (is_alone || tree->parent() == join.remaining[1]) && has_socket_of_its_own(turn, join);
}

// Whether the JOIN comes from a switch, or from no socket from which another rank has joined.
bool SwitchJudge::has_socket_of_its_own(const Turn& turn, const Join& join) const {
  const Tree* tree = tree_before(turn.packet);
  if (tree == nullptr || join.recorded.size() > 0) return true;
  const RankSet there = tree->membership().behind(turn.from) - tree->left();
  return there.empty() || there == turn.packet.ranks;
}

// Whether its route leads on to a node that it has not visited.
bool SwitchJudge::may_follow(const Turn& turn, const Join& join) const {
  if (join.remaining.size() < 2 || join.recorded.size() == Route::kMaxHops) return false;
  if (join.remaining[0] != own_) return false;
  Route after = join.remaining;
  after.pop_front();
  const Endpoint& own = join.remaining.front();
  const Endpoint& next = after.front();
  return !names(after, own) && !names(join.recorded, own) && !names(join.recorded, next) &&
         next != turn.from && config_.upstream.allows(next);
}

// Whether there is room for another tree, whatever the others may need. Regions may all be taken.
bool SwitchJudge::has_plenty(std::uint16_t tenant, const Join& join) const {
  std::size_t bytes = Tree::bytes_needed(join.world_size, {join.first_stream, join.stream_count});
  for (const Tree& tree : trees_before_) {
    bytes += Tree::bytes_needed(tree.world_size(), tree.streams());
  }
  const Quota quota = quota_of(config_.quotas, tenant);
  return quota.jobs == 0 && quota.bytes == 0 && config_.sharing.partitions == 0 &&
         trees_before_.size() < config_.max_trees && bytes <= config_.tree_memory_bytes;
}

// The earlier entry of the rank that the packet names.
const Member* SwitchJudge::member_before(const Turn& turn) const {
  const Tree* tree = tree_before(turn.packet);
  const Rank rank = turn.packet.ranks.lowest();
  const bool is_known = tree != nullptr && tree->membership().knows(rank);
  return is_known ? &tree->membership().member(rank) : nullptr;
}

// A JOIN makes nobody a member: until its JOIN_ACK comes, its rank only applies.
void SwitchJudge::expect_applicant(const Turn& turn, const Join& join) {
  const Rank rank = turn.packet.ranks.lowest();
  std::size_t found = 0;
  for (const Applicant& applicant : turn.tree->applicants()) {
    if (applicant.rank != rank || applicant.statement.nonce != join.nonce) continue;
    ++found;
    if (applicant.statement.child != turn.from) {
      object("the answer to a JOIN would not go to its sender");
    }
    if (applicant.statement.lease_end != turn.now + config_.timing.lease) {
      object("a JOIN did not renew the lease");
    }
  }
  if (found != 1) object("a forwarded JOIN was not recorded");
}

// After its JOIN a member is behind the sender only, for one lease. Of two statements the one with
// the higher number of detachments counts; if the numbers are equal, *attached* does.
void SwitchJudge::expect_member(const Turn& turn, const Join& join) {
  if (turn.tree == nullptr) return object("a forwarded JOIN was not recorded");
  const Member* holder = member_before(turn);
  if (holder == nullptr || holder->nonce != join.nonce) return expect_applicant(turn, join);
  const Rank rank = turn.packet.ranks.lowest();
  const Membership& members = turn.tree->membership();
  for (const Child& child : members.children()) {
    if (child.ranks.contains(rank) != (child.endpoint == turn.from)) {
      object("a rank is not behind the child that its JOIN came from");
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

// Only a JOIN_ACK from above, with the nonce of its JOIN, makes a rank a member.
void SwitchJudge::expect_no_phantom(const Turn& turn) {
  const std::optional<JoinAck> read = JoinAck::read(turn.packet.body);
  const bool is_ack = turn.packet.type() == PacketType::kJoinAck && read.has_value();
  const JoinAck ack = read.value_or(JoinAck{});
  turn.node.for_each_tree([&](const Tree& tree, const atp_share&) {
    const auto found = std::find_if(trees_before_.begin(), trees_before_.end(), [&](const Tree& t) {
      return t.job() == tree.job() && t.streams() == tree.streams();
    });
    const Tree* before = found == trees_before_.end() ? nullptr : &*found;
    tree.membership().known().for_each([&](Rank rank) {
      const std::uint64_t nonce = tree.membership().member(rank).nonce;
      const bool was = before != nullptr && before->membership().knows(rank) &&
                       before->membership().member(rank).nonce == nonce;
      const bool is_accepted = is_ack && ack.nonce == nonce && turn.packet.ranks.contains(rank) &&
                               before != nullptr && turn.from == before->parent();
      if (!was && !is_accepted) object("a rank became a member without a JOIN_ACK");
    });
    if (!is_ack || before == nullptr || &tree != turn.tree || turn.from != before->parent()) return;
    const bool is_about_it = turn.packet.header.bitmap_words == before->bitmap_words() &&
                             ack.world_size == before->world_size() &&
                             StreamRange{ack.first_stream, ack.stream_count} == before->streams();
    for (const Applicant& applicant : before->applicants()) {
      const bool is_its = is_about_it && applicant.statement.nonce == ack.nonce &&
                          turn.packet.ranks.contains(applicant.rank);
      const Membership& members = tree.membership();
      const RankSet there = before->membership().behind(applicant.statement.child) - before->left();
      const bool shares_socket =
          applicant.from_worker && !(there - RankSet::of(applicant.rank)).empty();
      if (is_its && !shares_socket &&
          (!members.knows(applicant.rank) || members.member(applicant.rank).nonce != ack.nonce)) {
        object("a JOIN_ACK did not make its rank a member");
      }
    }
  });
}

// STATUS *detached* counts if its number is higher than the known one.
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
      object("*detached* was handled against its number");
    }
  });
}

void SwitchJudge::judge_route(const Join& came, const Join& went, const Turn& turn,
                              const Endpoint& to) {
  Route remaining = came.remaining;
  if (remaining.size() < 2) return object("a JOIN whose route ends here was forwarded");
  const Endpoint own = remaining.front();
  if (own != own_) object("a JOIN that was meant for another node was forwarded");
  remaining.pop_front();
  Route recorded = came.recorded;
  const bool comes_back = names(remaining, own) || names(recorded, own) ||
                          names(recorded, remaining.front()) || remaining.front() == turn.from;
  if (comes_back) object("a JOIN whose route has a loop was forwarded");
  recorded.push_back(own);
  if (to != remaining.front() || went.remaining != remaining || went.recorded != recorded) {
    object("a JOIN was forwarded with a wrong route");
  }
  if (!config_.upstream.allows(to)) object("a JOIN went to a forbidden next hop");
}

// A rank's own LEAVE goes to the parent unchanged; any other LEAVE goes nowhere.
void SwitchJudge::judge_leave(const Turn& turn) {
  const Tree* tree = tree_before(turn.packet);
  const std::optional<Leave> leave = Leave::read(turn.packet.body);
  const Member* member = turn.packet.ranks.size() == 1 ? member_before(turn) : nullptr;
  const bool is_meant = !turn.packet.has(ATP_FLAG_DIRECT) && leave && member != nullptr &&
                        turn.packet.header.bitmap_words == tree->bitmap_words() &&
                        member->nonce == leave->nonce && member->child == turn.from;
  std::size_t passed = 0;
  for (const OutPacket& packet : turn.out.packets()) {
    if (turn.out.bytes_of(packet)[ATP_AT_TYPE] != ATP_LEAVE) continue;
    ++passed;
    if (!is_meant || packet.to != tree->parent()) object("another rank's LEAVE was forwarded");
  }
  if (is_meant && passed != 1) object("a LEAVE was not forwarded");
}

}  // namespace atp::sim
