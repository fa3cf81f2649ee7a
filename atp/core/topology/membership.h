#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/base/time.h"
#include "atp/wire/endpoint.h"

// Who stands behind whom at one node of one tree (docs/protocol.md §2): the soft state that JOINs
// write and that ends by itself. Switch and server hold one each for every job and stream range.
//
// Invariants: siblings are disjoint (the newest JOIN of a rank decides its child); attached() and
// detached() are disjoint and together hold exactly the ranks whose lease runs; between two
// statements about a rank the higher number of detachments counts, at equal numbers *attached*.

namespace atp {

struct Member {
  Endpoint child;           // the neighbour behind which the rank stands
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
  // At most, with every rank behind a child of its own; a growing vector may have twice the room.
  static constexpr std::size_t bytes_needed(std::size_t world_size) {
    return world_size * (sizeof(Member) + 2 * sizeof(Child));
  }

  std::size_t world_size() const { return members_.size(); }
  bool knows(Rank rank) const { return rank < members_.size() && known_.contains(rank); }
  const Member& member(Rank rank) const { return members_[rank]; }

  // A JOIN of `rank` came through `statement.child`. The lease and the child are always renewed;
  // the detaching only if the statement is not older than what is known. rank < world_size().
  void refresh(Rank rank, const Member& statement);

  // A STATUS or JOIN said that the rank is detached, for the `detachments`-th time. Returns
  // whether that was news.
  bool detach(Rank rank, std::uint32_t detachments);

  void remove(Rank rank);

  // Removes the ranks whose lease has ended, and returns them.
  RankSet expire(Instant now);
  // The earliest end of a lease, or kNever.
  Instant next_expiry() const;

  const RankSet& known() const { return known_; }
  const RankSet& attached() const { return attached_; }  // the member mask
  RankSet detached() const { return known_ - attached_; }

  // The ranks behind this neighbour; empty if it is none.
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
