#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/base/time.h"
#include "atp/wire/endpoint.h"

// Which ranks are behind which child at one node of one tree (docs/inside/protocol §2): soft state
// that JOINs renew and that expires by itself. Switch and server hold one per job and stream range.
//
// Invariants: the children's ranks are disjoint (the newest JOIN of a rank decides its child);
// attached() and detached() are disjoint and together hold exactly the ranks with a running lease;
// of two statements about a rank, the one with the higher number of detachments counts; with equal
// numbers, *attached*.

namespace atp {

struct Member {
  Endpoint child;           // the neighbour that the rank is behind
  std::uint64_t nonce = 0;  // of the worker's socket
  std::uint32_t detachments = 0;
  bool detached = false;
  Instant lease_end{};
  bool operator==(const Member&) const = default;
};

struct Child {
  Endpoint endpoint;
  RankSet ranks;  // attached or not
  bool operator==(const Child&) const = default;
};

class Membership {
 public:
  explicit Membership(std::size_t world_size) : members_(world_size) {}
  // The maximum, with every rank behind a child of its own; a growing vector may take twice the
  // room.
  static constexpr std::size_t bytes_needed(std::size_t world_size) {
    return world_size * (sizeof(Member) + 2 * sizeof(Child));
  }

  std::size_t world_size() const { return members_.size(); }
  bool knows(Rank rank) const { return rank < members_.size() && known_.contains(rank); }
  const Member& member(Rank rank) const { return members_[rank]; }

  // Records a JOIN of `rank` through `statement.child`. Always renews the lease and the child, but
  // updates the attachment only if the statement is not outdated. rank < world_size().
  void refresh(Rank rank, const Member& statement);

  // Records that the rank is detached for the `detachments`-th time. Returns whether that changed
  // anything.
  bool detach(Rank rank, std::uint32_t detachments);

  void remove(Rank rank);

  // Removes the ranks whose lease has ended, and returns them.
  RankSet expire(Instant now);
  // The earliest end of a lease, or kNever.
  Instant next_expiry() const;

  const RankSet& known() const { return known_; }
  const RankSet& attached() const { return attached_; }  // the member mask
  RankSet detached() const { return known_ - attached_; }

  // The ranks behind this endpoint; empty if it is not a child.
  const RankSet& behind(const Endpoint& endpoint) const;
  std::span<const Child> children() const { return children_; }

  bool operator==(const Membership&) const = default;

 private:
  Child& child_at(const Endpoint& endpoint);
  void take_from_child(Rank rank);

  std::vector<Member> members_;  // by rank
  std::vector<Child> children_;  // sorted by endpoint, none empty
  RankSet known_;
  RankSet attached_;
};

}  // namespace atp
