// The newest JOIN of a rank decides its child; the highest number of detachments decides whether it
// is attached.
#include "atp/core/topology/membership.h"

#include <algorithm>

#include "atp/base/check.h"

namespace atp {
namespace {

const RankSet kNoRanks;

bool before(const Child& child, const Endpoint& endpoint) { return child.endpoint < endpoint; }

}  // namespace

void Membership::refresh(Rank rank, const Member& statement) {
  ATP_CHECK(rank < members_.size());
  Member& member = members_[rank];
  const bool was_known = known_.contains(rank);
  if (was_known && member.child != statement.child) take_from_child(rank);
  if (!was_known || member.child != statement.child) child_at(statement.child).ranks.insert(rank);

  const bool newer = !was_known || member.nonce != statement.nonce ||
                     statement.detachments > member.detachments ||
                     (statement.detachments == member.detachments && !statement.detached);
  member.child = statement.child;
  member.nonce = statement.nonce;
  member.lease_end = statement.lease_end;
  known_.insert(rank);
  if (!newer) return;
  member.detachments = statement.detachments;
  member.detached = statement.detached;
  if (member.detached) {
    attached_.erase(rank);
  } else {
    attached_.insert(rank);
  }
}

bool Membership::detach(Rank rank, std::uint32_t detachments) {
  if (!knows(rank) || detachments <= members_[rank].detachments) return false;
  members_[rank].detachments = detachments;
  members_[rank].detached = true;
  attached_.erase(rank);
  return true;
}

void Membership::remove(Rank rank) {
  if (!knows(rank)) return;
  take_from_child(rank);
  members_[rank] = Member{};
  known_.erase(rank);
  attached_.erase(rank);
}

RankSet Membership::expire(Instant now) {
  RankSet ended;
  known_.for_each([&](Rank rank) {
    if (members_[rank].lease_end <= now) ended.insert(rank);
  });
  ended.for_each([&](Rank rank) { remove(rank); });
  return ended;
}

Instant Membership::next_expiry() const {
  Instant next = kNever;
  known_.for_each([&](Rank rank) { next = std::min(next, members_[rank].lease_end); });
  return next;
}

const RankSet& Membership::behind(const Endpoint& endpoint) const {
  const auto it = std::lower_bound(children_.begin(), children_.end(), endpoint, before);
  return it != children_.end() && it->endpoint == endpoint ? it->ranks : kNoRanks;
}

Child& Membership::child_at(const Endpoint& endpoint) {
  const auto it = std::lower_bound(children_.begin(), children_.end(), endpoint, before);
  if (it != children_.end() && it->endpoint == endpoint) return *it;
  return *children_.insert(it, Child{endpoint, {}});
}

void Membership::take_from_child(Rank rank) {
  Child& child = child_at(members_[rank].child);
  child.ranks.erase(rank);
  if (child.ranks.empty()) children_.erase(children_.begin() + (&child - children_.data()));
}

}  // namespace atp
