#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "atp/core/dataplane/aggregator.h"
#include "atp/core/dataplane/shares.h"
#include "atp/core/lateness.h"
#include "atp/core/topology/membership.h"
#include "atp/wire/join.h"
#include "atp/wire/packet_view.h"
#include "atp/wire/status.h"

// The trees that pass through a switch: one per job, incarnation and stream range, made by the
// first JOIN and dropped when its last lease has ended (docs/inside/protocol §2). Soft state: if a
// switch loses it, its workers lose a round trip but no result.
//
// Invariant: the entry is the membership in the form that the pipeline reads.

// In the namespace of its type, so that lookup finds it.
bool operator==(const atp_tree_entry& a, const atp_tree_entry& b);

namespace atp {

struct StreamRange {
  std::uint16_t first = 0;
  std::uint16_t count = 1;

  bool contains(std::uint16_t stream) const { return stream >= first && stream - first < count; }
  bool overlaps(const StreamRange& other) const {
    return contains(other.first) || other.contains(first);
  }
  auto operator<=>(const StreamRange&) const = default;
};

// The server's last report of ranks that an operation waits for.
struct HeardWaiting {
  RankSet ranks;
  Instant since{};  // first report of the episode, less the second that the server waits before it
  Instant heard{};
  std::uint16_t stream = 0;
  std::uint64_t sequence = 0;
  std::uint32_t operation = 0;
  std::array<Endpoint, StatusMessage::kMaxEndpoints> homes{};  // where the first of them are
  std::size_t home_count = 0;
  CauseText description;  // what the ranks call the operation; empty: unknown
  bool operator==(const HeardWaiting&) const = default;
};

// A rank whose JOIN has gone up, but for which no JOIN_ACK has come down yet. Anybody can send a
// JOIN, so it is no member: no sum waits for it, and it gets nothing but the answers to its JOIN.
struct Applicant {
  Rank rank = 0;
  Member statement;
  bool from_worker = false;  // and not through a switch
  bool operator==(const Applicant&) const = default;
};

// How many GRADIENTs of a tree have looked for a place here. It decides nothing, so it is no part
// of the tree's value.
struct Demand {
  std::uint64_t found = 0;
  std::uint64_t collided = 0;  // found none, and passed
  bool operator==(const Demand&) const { return true; }
};

class Tree {
 public:
  Tree(const JobKey& job, const StreamRange& streams, std::size_t world_size,
       std::uint16_t value_limit, Shares::Id share, Duration lease);
  static constexpr std::size_t bytes_needed(std::size_t world_size, const StreamRange& streams);
  // All ranks, and as many strangers.
  static constexpr std::size_t most_applicants(std::size_t world_size) { return 2 * world_size; }

  const JobKey& job() const { return job_; }
  const StreamRange& streams() const { return streams_; }
  std::size_t world_size() const { return membership_.world_size(); }
  std::uint8_t bitmap_words() const { return entry_.bitmap_words; }
  const Endpoint& parent() const { return parent_; }
  const Membership& membership() const { return membership_; }
  std::span<const Applicant> applicants() const { return applicants_; }
  // The ranks that have joined or want to.
  RankSet known() const;
  // Whether these ranks have joined, or want to, from behind this child.
  bool is_behind(const Endpoint& child, const RankSet& ranks) const;
  // The other members behind this child that have not left.
  RankSet others_behind(const Endpoint& child, Rank rank) const {
    return membership_.behind(child) - left_ - RankSet::of(rank);
  }
  // Where the packet with this nonce, addressed to these ranks, must go; null: nowhere.
  const Endpoint* child_of(const RankSet& ranks, std::uint64_t nonce) const;
  Shares::Id share() const { return entry_.share; }
  const RankSet& left() const { return left_; }
  std::uint16_t value_count() const { return entry_.value_count; }  // 0: not agreed yet
  // Whether every rank known here has left, so that the tree only waits for leases to end.
  bool departed() const { return (membership_.known() - left_).empty() && applicants_.empty(); }
  // Whether no JOIN_ACK has come yet: the job's ranks are still joining, or this switch is new.
  bool joining() const { return sequence_limits_.empty(); }
  const atp_tree_entry& entry() const { return entry_; }

  // The highest plausible sequence on this stream; 0 while unknown.
  std::uint64_t sequence_limit(std::uint16_t stream) const {
    return sequence_limits_.empty() ? 0 : sequence_limits_[stream - streams_.first];
  }

  // Whether the rank is held by a member with a different nonce. A rank that left is free. Whether
  // an applicant holds it is for the server to say.
  bool taken(Rank rank, std::uint64_t nonce, Instant now) const;
  // A JOIN that was not refused: renews the lease of a member, or makes the rank an applicant.
  void note_join(Instant now, Rank rank, const Endpoint& child, const Endpoint& parent,
                 const Join& join);
  // Learns what the job's workers agreed on, and that the ranks with this nonce are members;
  // ignores a JOIN_ACK that is not about this tree.
  void learn(const JoinAck& ack, const RankSet& ranks);
  void note_parameter(std::uint16_t stream, std::uint64_t sequence);
  // A question of a rank goes up to the parent; anything comes from it.
  void note_question(Instant now) {
    if (questions_++ == 0) asked_since_ = now;
  }
  // What the parent wants to see in the JOINs that are passed on to it.
  void note_proof(std::uint64_t proof) { proof_ = proof; }
  std::uint64_t proof() const { return proof_; }
  void note_parent() { questions_ = 0; }
  // Whether it has answered none of several questions in time. Only questions tell, since a parent
  // whose own parent is dead has nothing else to send.
  bool parent_is_silent(Instant now) const {
    return questions_ >= kQuestions && now >= asked_since_ + kToAnswer;
  }
  // A STATUS *waiting for* about the fragment that the header names.
  void note_waiting(Instant now, const atp_header& header, const StatusMessage& status);
  // The ranks that the server waits for now; it reports them once a second.
  std::optional<HeardWaiting> waiting(Instant now) const;
  // A GRADIENT that came from its child.
  void note_gradient(Instant now, const atp_header& header, const RankSet& ranks) {
    const auto stream = static_cast<std::size_t>(header.stream - streams_.first);
    if (!lateness_.goes_on(stream, ranks, header.sequence, header.operation, now)) {
      note_operation(now, header, ranks);
    }
  }
  const Lateness& lateness() const { return lateness_; }
  void note_found() { ++demand_.found; }
  void note_collided() { ++demand_.collided; }
  const Demand& demand() const { return demand_; }
  void detach(Rank rank, std::uint32_t detachments);
  // The rank contributes no more. It stays known until its lease ends, so that its LEAVE, which is
  // repeated until acknowledged, still goes up.
  void leave(Rank rank);
  // The socket with this nonce is no longer one of the job.
  void forget_applicant(Rank rank, std::uint64_t nonce);
  // The JOIN with this nonce was turned down.
  void turn_down(Rank rank, std::uint64_t nonce);
  // Ends leases; returns how many.
  std::size_t expire(Instant now);

  bool operator==(const Tree&) const = default;

 private:
  void note_operation(Instant now, const atp_header& header, const RankSet& ranks);
  void apply(const Applicant& applicant);
  void update_entry();
  static constexpr std::uint32_t kQuestions = 4;
  static constexpr Duration kToAnswer = std::chrono::milliseconds(150);

  JobKey job_;
  StreamRange streams_;
  Endpoint parent_;
  std::uint64_t proof_ = 0;  // that this switch receives at its address, for the parent
  Membership membership_;
  std::vector<Applicant> applicants_;  // in the order of their JOINs
  RankSet left_;
  std::uint32_t questions_ = 0;  // passed on since anything has come from the parent
  Instant asked_since_{};        // when the first of them was
  Duration lease_;
  std::uint32_t wmax_ = 0;                      // 0 until a JOIN_ACK has passed
  HeardWaiting waiting_{};                      // without ranks: nothing reported
  Lateness lateness_;                           // of the ranks behind this switch
  std::vector<std::uint64_t> sequence_limits_;  // by stream, once wmax_ is known
  atp_tree_entry entry_{};
  Demand demand_;
};

constexpr std::size_t Tree::bytes_needed(std::size_t world_size, const StreamRange& streams) {
  return 2 * sizeof(Tree) + 2 * Shares::kBytes + Membership::bytes_needed(world_size) +
         2 * sizeof(Applicant) * most_applicants(world_size) +
         sizeof(std::uint64_t) * streams.count + Lateness::bytes_needed(world_size, streams.count);
}

class TreeTable {
 public:
  TreeTable(std::uint16_t value_limit, const Shares& shares)
      : value_limit_(value_limit), shares_(shares) {}

  // The tree of a stream, or null.
  Tree* find(const JobKey& job, std::uint16_t stream);
  // The tree of another range of this job that shares a stream with this one, or null.
  const Tree* conflicting(const JobKey& job, const StreamRange& streams) const;
  // Whether the job has a tree here, of whatever streams.
  bool knows(const JobKey& job) const;
  // Whether a job of this number has one, whosever it is.
  bool knows_job(std::uint32_t job) const;
  // The range must not overlap another tree of the job, and the caller must have checked that there
  // is room. Invalidates pointers to trees.
  Tree* make(const JobKey& job, const StreamRange& streams, std::size_t world_size, Duration lease,
             const Quota& quota = {});

  struct Ended {
    std::size_t leases = 0;
    std::size_t trees = 0;
  };
  // Ends leases and drops the trees that have none left.
  Ended expire(Instant now);
  // Drops the trees that only wait for the leases of ranks that have left. Returns how many.
  std::size_t drop_departed();

  // The jobs' shares of the aggregators.
  Shares& shares() { return shares_; }
  const Shares& shares() const { return shares_; }

  std::span<const Tree> trees() const { return trees_; }
  std::size_t size() const { return trees_.size(); }
  std::size_t bytes() const { return bytes_; }  // the most that all trees may need
  bool operator==(const TreeTable&) const = default;

 private:
  template <class Condition>
  std::size_t drop_if(Condition&& condition);

  std::uint16_t value_limit_;
  Shares shares_;
  std::vector<Tree> trees_;  // sorted by job and first stream
  // Where find() looks first. It changes no result, so it is not a part of the value.
  struct Hint {
    std::size_t at = 0;
    bool operator==(const Hint&) const { return true; }
  } found_;
  std::size_t bytes_ = 0;
};

}  // namespace atp
