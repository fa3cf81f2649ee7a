#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "atp/core/server/fragment.h"
#include "atp/core/topology/membership.h"
#include "atp/core/turn.h"
#include "atp/wire/join.h"

// The ranks of a job, and the paths by which the server reaches them (docs/inside/protocol §2). A
// rank has two leases: one renewed by its JOINs through the tree (they show the child that it is
// behind), one by its straight JOINs (they show its own endpoint, the path around all switches).
// While only the second runs, the rank is *detached*; when both have ended, it is *lost*.
//
// Only JOINs attach or detach a rank: those through the tree, and straight ones with the mark. Of
// two statements the one with more detachments counts; with equal numbers, *attached*. The server
// remembers a rank's highest number even after its tree lease has ended, so its next JOIN through
// the tree attaches it again.
//
// A rank that has left stays behind its child until its leases end, because sums that include it
// may still be in flight. A rank that is lost or has left does not come back within an incarnation.

namespace atp {

// A JOIN's number of detachments and its mark; its JOIN_ACK repeats both.
struct Detaching {
  std::uint32_t detachments = 0;
  bool detached = false;
  bool operator==(const Detaching&) const = default;
};

struct RankRecord {
  std::uint64_t nonce = 0;
  std::uint32_t detachments = 0;  // the highest number seen
  Detaching through_tree;         // as in its last JOIN on that path
  Detaching straight;
  Instant first_straight = kNever;
  Endpoint own;    // the source of its straight JOINs, kept beyond their lease
  Route recorded;  // the switches of its last JOIN through the tree
  std::array<Instant, 2> missing_answered{kLongAgo, kLongAgo};  // through the tree, straight
  Instant waiting_answered = kLongAgo;
  bool operator==(const RankRecord&) const = default;
};

// On which path a packet with certain ranks came.
enum class Source : std::uint8_t { kForeign, kTree, kStraight };

class JobMembers {
 public:
  explicit JobMembers(std::size_t world_size);
  static std::size_t bytes_needed(std::size_t world_size);

  const RankSet& all() const { return all_; }
  const RankSet& lost() const { return lost_; }
  const RankSet& left() const { return left_; }
  // The other ranks that have joined from this address, and have not left.
  RankSet others_at(const Endpoint& from, Rank rank) const {
    return (tree_.behind(from) | straight_.behind(from)) - left_ - RankSet::of(rank);
  }
  RankSet gone() const { return lost_ | left_; }
  RankSet known() const { return tree_.known() | straight_.known(); }
  const Membership& tree() const { return tree_; }
  const Membership& straight() const { return straight_; }
  const RankRecord& record(Rank rank) const { return records_[rank]; }
  RankRecord& record(Rank rank) { return records_[rank]; }

  // The endpoint of the rank's holder, if that has another nonce and a running lease.
  std::optional<Endpoint> holder(Rank rank, std::uint64_t nonce) const;

  // Record a JOIN of the rank. True if the switches must be told at once that the rank is detached.
  bool join_through_tree(Rank rank, const Endpoint& child, const Join& join, Instant lease_end);
  bool join_straight(Rank rank, const Endpoint& own, const Join& join, Instant now,
                     Instant lease_end);

  // The ranks that have joined: through the tree, detached, or with only an unmarked straight JOIN
  // for longer than `grace` (then their path through the tree must be dead).
  RankSet joined(Instant now, Duration grace) const;

  // Ends leases. Returns the ranks that have none left, except those that left.
  RankSet expire(Instant now);
  Instant next_expiry() const;
  // The ranks whose JOIN has arrived within this time.
  RankSet heard_since(Instant now, Duration time, Duration lease) const;
  void forget(Rank rank);
  void lose(const RankSet& ranks) { lost_ |= ranks; }
  void leave(Rank rank) { left_.insert(rank); }

  // Present but not attached in the tree.
  RankSet detached() const { return known() - tree_.attached() - gone(); }
  Source source_of(const Endpoint& from, const RankSet& ranks) const;
  // Whether these are ranks of the job whose packets come from there.
  bool is_from(const Arrival& in) const {
    const RankSet& ranks = in.packet.ranks;
    return !ranks.empty() && source_of(in.from, ranks) != Source::kForeign;
  }
  // A switch records itself in the JOINs that it passes on. The straight path does not show what a
  // child is: its JOINs may be lost, or come from another address already.
  bool is_switch(const Child& child) const;
  // The maximum number of switches on any recorded route.
  std::size_t height() const { return height_; }

  // Calls send(endpoint) for each path of a message to these ranks: once per child with one of them
  // behind it, and once per rank that is not attached or is in `straight_too`.
  template <class Send>
  void for_each_path(const RankSet& ranks, const RankSet& straight_too, Send&& send) const;

  bool operator==(const JobMembers&) const = default;

 private:
  void renew_record(Rank rank, std::uint64_t nonce);

  RankSet all_;
  RankSet lost_;
  RankSet left_;
  Membership tree_;
  Membership straight_;
  std::vector<RankRecord> records_;
  std::size_t height_ = 0;
};

template <class Send>
void JobMembers::for_each_path(const RankSet& ranks, const RankSet& straight_too,
                               Send&& send) const {
  for (const Child& child : tree_.children()) {
    if (child.ranks.intersects(ranks)) send(child.endpoint);
  }
  const RankSet straight = ((ranks - tree_.attached()) | straight_too) & straight_.known();
  straight.for_each([&](Rank rank) {
    const Endpoint& own = straight_.member(rank).child;
    const bool sent_already =
        ranks.contains(rank) && tree_.knows(rank) && tree_.member(rank).child == own;
    if (!sent_already) send(own);
  });
}

}  // namespace atp
