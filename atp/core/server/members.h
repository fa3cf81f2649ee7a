#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "atp/core/server/fragment.h"
#include "atp/core/topology/membership.h"
#include "atp/wire/join.h"

// Who belongs to a job, and on which paths the server reaches them (docs/protocol.md §2). A rank
// has two leases: one written by its JOINs through the tree (which child it stands behind), one by
// its straight JOINs (its own endpoint, the way around all switches). While only the second runs,
// the rank is *detached*; when both have ended, it is *lost*.
//
// Detaching is said by JOINs alone: by one through the tree, or by a straight one with the mark.
// Between two statements the higher number of detachments counts, at equal numbers *attached*; the
// server remembers the highest number of a rank even while its tree lease has ended. A rank whose
// tree lease ends keeps its number, so its next JOIN through the tree attaches it again.
//
// A rank that has left stays behind its child until its leases end: sums of which it is a part may
// still be on their way. A lost or a left rank doesn't come back within an incarnation.

namespace atp {

// A JOIN's number and mark, which its JOIN_ACK repeats.
struct Detaching {
  std::uint32_t detachments = 0;
  bool detached = false;
  bool operator==(const Detaching&) const = default;
};

struct RankRecord {
  std::uint64_t nonce = 0;
  std::uint32_t detachments = 0;  // the highest heard of
  Detaching through_tree;         // as its last JOIN of that path had them
  Detaching straight;
  Instant first_straight = kNever;
  Endpoint own;    // where its straight JOINs come from, known beyond their lease
  Route recorded;  // the switches of its last JOIN through the tree
  std::array<Instant, 2> missing_answered{kLongAgo, kLongAgo};  // through the tree, straight
  Instant waiting_answered = kLongAgo;
  bool operator==(const RankRecord&) const = default;
};

// Who may have sent a packet with certain ranks.
enum class Source : std::uint8_t { kForeign, kTree, kStraight };

class JobMembers {
 public:
  explicit JobMembers(std::size_t world_size);
  static std::size_t bytes_needed(std::size_t world_size);

  const RankSet& all() const { return all_; }
  const RankSet& lost() const { return lost_; }
  const RankSet& left() const { return left_; }
  RankSet gone() const { return lost_ | left_; }
  RankSet known() const { return tree_.known() | straight_.known(); }
  const Membership& tree() const { return tree_; }
  const Membership& straight() const { return straight_; }
  const RankRecord& record(Rank rank) const { return records_[rank]; }
  RankRecord& record(Rank rank) { return records_[rank]; }

  // Where the holder of the rank is, if another nonce holds it and a lease of it runs.
  std::optional<Endpoint> holder(Rank rank, std::uint64_t nonce) const;

  // A JOIN of the rank. True if the switches must hear at once that the rank is detached.
  bool join_through_tree(Rank rank, const Endpoint& child, const Join& join, Instant lease_end);
  bool join_straight(Rank rank, const Endpoint& own, const Join& join, Instant now,
                     Instant lease_end);

  // The ranks that are in: by the tree, detached, or with nothing but an unmarked straight JOIN
  // for longer than `grace` (their path through the tree is dead, else it would have answered).
  RankSet joined(Instant now, Duration grace) const;

  // Ends leases. Returns the ranks that have none left, but for those that left.
  RankSet expire(Instant now);
  Instant next_expiry() const;
  // Whose JOIN has come within this time.
  RankSet heard_since(Instant now, Duration time, Duration lease) const;
  void forget(Rank rank);
  void lose(const RankSet& ranks) { lost_ |= ranks; }
  void leave(Rank rank) { left_.insert(rank); }

  // Present but not attached in the tree.
  RankSet detached() const { return known() - tree_.attached() - gone(); }
  Source source_of(const Endpoint& from, const RankSet& ranks) const;
  bool is_switch(const Child& child) const;
  // The most switches on any recorded route.
  std::size_t height() const { return height_; }

  // Calls send(endpoint) for each path on which a message for these ranks goes out: once for each
  // child with one of them behind it, and straight to those that are not attached, or are in
  // `straight_too`.
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
