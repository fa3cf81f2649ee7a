// Records a rank's JOINs on each of its two paths, and derives which ranks have joined, are gone or
// are detached.
#include "atp/core/server/members.h"

#include <algorithm>

namespace atp {

JobMembers::JobMembers(std::size_t world_size)
    : all_(RankSet::first(world_size)),
      tree_(world_size),
      straight_(world_size),
      records_(world_size) {}

std::size_t JobMembers::bytes_needed(std::size_t world_size) {
  return world_size * sizeof(RankRecord) + 2 * Membership::bytes_needed(world_size);
}

std::optional<Endpoint> JobMembers::holder(Rank rank, std::uint64_t nonce) const {
  if (records_[rank].nonce == nonce) return std::nullopt;
  if (straight_.knows(rank)) return straight_.member(rank).child;
  if (tree_.knows(rank)) return tree_.member(rank).child;
  return std::nullopt;
}

void JobMembers::renew_record(Rank rank, std::uint64_t nonce) {
  if (records_[rank].nonce == nonce && known().contains(rank)) return;
  records_[rank] = RankRecord{};
  records_[rank].nonce = nonce;
}

bool JobMembers::join_through_tree(Rank rank, const Endpoint& child, const Join& join,
                                   Instant lease_end) {
  renew_record(rank, join.nonce);
  RankRecord& record = records_[rank];
  record.through_tree = {join.detachments, join.detached};
  record.recorded = join.recorded;
  height_ = std::max(height_, join.recorded.size());
  tree_.refresh(rank, {child, join.nonce, join.detachments, join.detached, lease_end});
  if (join.detachments < record.detachments) {
    // An old JOIN; the switches that it passed may have taken it for current.
    tree_.detach(rank, record.detachments);
    return !tree_.attached().contains(rank);
  }
  record.detachments = join.detachments;
  return false;
}

bool JobMembers::join_straight(Rank rank, const Endpoint& own, const Join& join, Instant now,
                               Instant lease_end) {
  renew_record(rank, join.nonce);
  RankRecord& record = records_[rank];
  record.straight = {join.detachments, join.detached};
  record.own = own;
  record.first_straight = std::min(record.first_straight, now);
  straight_.refresh(rank, {own, join.nonce, join.detachments, join.detached, lease_end});
  if (!join.detached || join.detachments <= record.detachments) return false;
  record.detachments = join.detachments;
  tree_.detach(rank, join.detachments);
  return true;
}

RankSet JobMembers::joined(Instant now, Duration grace) const {
  RankSet in = tree_.known();
  (straight_.known() - in).for_each([&](Rank rank) {
    const RankRecord& record = records_[rank];
    if (record.straight.detached || record.first_straight + grace <= now) in.insert(rank);
  });
  return in;
}

RankSet JobMembers::expire(Instant now) {
  const RankSet before = known();
  tree_.expire(now);
  straight_.expire(now);
  return before - known() - left_;
}

Instant JobMembers::next_expiry() const {
  return std::min(tree_.next_expiry(), straight_.next_expiry());
}

RankSet JobMembers::heard_since(Instant now, Duration time, Duration lease) const {
  RankSet heard;
  const auto add = [&](const Membership& path) {
    path.known().for_each([&](Rank rank) {
      if (path.member(rank).lease_end - lease + time >= now) heard.insert(rank);
    });
  };
  add(tree_);
  add(straight_);
  return heard;
}

void JobMembers::forget(Rank rank) {
  tree_.remove(rank);
  straight_.remove(rank);
  records_[rank] = RankRecord{};
}

Source JobMembers::source_of(const Endpoint& from, const RankSet& ranks) const {
  if (ranks.is_single() && straight_.knows(ranks.lowest()) &&
      straight_.member(ranks.lowest()).child == from) {
    return Source::kStraight;
  }
  return tree_.behind(from).contains(ranks) ? Source::kTree : Source::kForeign;
}

bool JobMembers::is_switch(const Child& child) const {
  return !records_[child.ranks.lowest()].recorded.empty();
}

}  // namespace atp
