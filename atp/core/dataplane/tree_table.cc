// What a tree learns from the messages that pass, and how it keeps its pipeline entry up to date;
// then the sorted table of trees, which every packet searches.
#include "atp/core/dataplane/tree_table.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <type_traits>

#include "atp/core/dataplane/pipeline.h"
#include "atp/core/timing.h"

bool operator==(const atp_tree_entry& a, const atp_tree_entry& b) {
  static_assert(std::has_unique_object_representations_v<atp_tree_entry>);
  return std::memcmp(&a, &b, sizeof a) == 0;
}

namespace atp {
namespace {

struct Position {
  JobKey job;
  std::uint16_t stream;
};

bool starts_after(const Position& at, const Tree& tree) {
  if (at.job != tree.job()) return at.job < tree.job();
  return at.stream < tree.streams().first;
}

}  // namespace

Tree::Tree(const JobKey& job, const StreamRange& streams, std::size_t world_size,
           std::uint16_t value_limit, Shares::Id share, Duration lease)
    : job_(job), streams_(streams), membership_(world_size), lease_(lease) {
  entry_.bitmap_words = bitmap_words_for(world_size);
  entry_.value_limit = value_limit;
  entry_.share = share;
}

bool Tree::taken(Rank rank, std::uint64_t nonce, Instant now) const {
  if (!membership_.knows(rank) || left_.contains(rank)) return false;
  const Member& member = membership_.member(rank);
  return member.nonce != nonce && member.lease_end > now;
}

void Tree::note_join(Instant now, Rank rank, const Endpoint& child, const Endpoint& parent,
                     const Join& join) {
  if (parent_ != parent) {
    questions_ = 0;
    proof_ = 0;
  }
  parent_ = parent;
  const Member statement{child, join.nonce, join.detachments, join.detached, now + lease_};
  if (!membership_.knows(rank) || membership_.member(rank).nonce != join.nonce) {
    return apply({rank, statement, join.recorded.size() == 1});  // this switch
  }
  membership_.refresh(rank, statement);
  update_entry();
}

// If there are too many, the oldest makes way; its socket repeats its JOIN.
void Tree::apply(const Applicant& applicant) {
  const auto same = std::find_if(applicants_.begin(), applicants_.end(), [&](const Applicant& a) {
    return a.rank == applicant.rank && a.statement.nonce == applicant.statement.nonce;
  });
  if (same != applicants_.end()) {
    applicants_.erase(same);
  } else if (applicants_.size() == most_applicants(world_size())) {
    applicants_.erase(applicants_.begin());
  }
  applicants_.push_back(applicant);
}

RankSet Tree::known() const {
  RankSet known = membership_.known();
  for (const Applicant& applicant : applicants_) known.insert(applicant.rank);
  return known;
}

bool Tree::is_behind(const Endpoint& child, const RankSet& ranks) const {
  RankSet left = ranks - membership_.behind(child);
  for (const Applicant& applicant : applicants_) {
    if (applicant.statement.child == child) left.erase(applicant.rank);
  }
  return left.empty();
}

const Endpoint* Tree::child_of(const RankSet& ranks, std::uint64_t nonce) const {
  for (const Applicant& applicant : applicants_) {
    if (ranks.contains(applicant.rank) && applicant.statement.nonce == nonce) {
      return &applicant.statement.child;
    }
  }
  const Endpoint* child = nullptr;
  (ranks & membership_.known()).for_each([&](Rank rank) {
    const Member& member = membership_.member(rank);
    if (member.nonce == nonce) child = &member.child;
  });
  return child;
}

void Tree::learn(const JoinAck& ack, const RankSet& ranks) {
  const StreamRange range{ack.first_stream, ack.stream_count};
  if (range != streams_ || ack.world_size != world_size()) return;
  const auto accepted = std::find_if(
      applicants_.begin(), applicants_.end(),
      [&](const Applicant& a) { return ranks.contains(a.rank) && a.statement.nonce == ack.nonce; });
  const bool shares_socket = accepted != applicants_.end() && accepted->from_worker &&
                             !others_behind(accepted->statement.child, accepted->rank).empty();
  if (accepted != applicants_.end() && !shares_socket) {
    const Rank rank = accepted->rank;
    left_.erase(rank);
    membership_.refresh(rank, accepted->statement);
    std::erase_if(applicants_, [rank](const Applicant& a) { return a.rank == rank; });
    update_entry();
  }
  entry_.value_count = ack.value_count;
  wmax_ = ack.wmax;
  lease_ = std::chrono::milliseconds(ack.lease_ms);
  if (sequence_limits_.empty()) lateness_ = Lateness(world_size(), streams_.count);
  sequence_limits_.resize(streams_.count);
}

void Tree::note_parameter(std::uint16_t stream, std::uint64_t sequence) {
  if (sequence_limits_.empty()) return;
  // The awaited fragment is complete; the server will report whom it waits for next.
  if (stream == waiting_.stream && sequence >= waiting_.sequence) waiting_.ranks.clear();
  std::uint64_t& limit = sequence_limits_[stream - streams_.first];
  limit = std::max<std::uint64_t>(limit, atp_sequence_limit(sequence, wmax_));
}

// A function of its own, to keep this off the path of packets that begin no operation.
void Tree::note_operation(Instant now, const atp_header& header, const RankSet& ranks) {
  const auto stream = static_cast<std::size_t>(header.stream - streams_.first);
  lateness_.begin(stream, ranks, header.sequence, header.operation, now,
                  membership_.attached() - left_);
}

void Tree::note_waiting(Instant now, const atp_header& header, const StatusMessage& status) {
  // While the job joins, nothing is summed yet.
  if (sequence_limits_.empty() || status.about.empty()) return;
  const bool goes_on = waiting(now).has_value();
  waiting_ = {.ranks = status.about,
              .since = goes_on ? waiting_.since : now - Timing{}.waiting_for,
              .heard = now,
              .stream = header.stream,
              .sequence = header.sequence,
              .operation = header.operation,
              .homes = status.endpoints,
              .home_count = status.endpoint_count,
              .description = status.cause};
}

std::optional<HeardWaiting> Tree::waiting(Instant now) const {
  constexpr Duration kBetween = Timing{}.waiting_for + std::chrono::milliseconds(500);
  if (waiting_.ranks.empty() || now > waiting_.heard + kBetween) return std::nullopt;
  return waiting_;
}

void Tree::detach(Rank rank, std::uint32_t detachments) {
  // Or a JOIN_ACK that answers an earlier JOIN would make it an attached member.
  for (Applicant& applicant : applicants_) {
    if (applicant.rank != rank || detachments <= applicant.statement.detachments) continue;
    applicant.statement.detachments = detachments;
    applicant.statement.detached = true;
  }
  if (membership_.detach(rank, detachments)) update_entry();
}

void Tree::leave(Rank rank) {
  if (!membership_.knows(rank)) return;
  left_.insert(rank);
  update_entry();
}

void Tree::forget_applicant(Rank rank, std::uint64_t nonce) {
  std::erase_if(applicants_,
                [&](const Applicant& a) { return a.rank == rank && a.statement.nonce == nonce; });
}

void Tree::turn_down(Rank rank, std::uint64_t nonce) {
  forget_applicant(rank, nonce);
  if (!membership_.knows(rank) || membership_.member(rank).nonce != nonce) return;
  membership_.remove(rank);
  left_.erase(rank);
  update_entry();
}

std::size_t Tree::expire(Instant now) {
  std::erase_if(applicants_, [now](const Applicant& a) { return a.statement.lease_end <= now; });
  const RankSet ended = membership_.expire(now);
  if (ended.empty()) return 0;
  const std::size_t vanished = (ended - left_).size();
  left_ -= ended;
  update_entry();
  return vanished;
}

void Tree::update_entry() {
  const RankSet members = membership_.attached() - left_;
  const RankSet detached = membership_.detached();
  std::copy(members.words().begin(), members.words().end(), entry_.members);
  std::copy(detached.words().begin(), detached.words().end(), entry_.detached);
}

Tree* TreeTable::find(const JobKey& job, std::uint16_t stream) {
  const auto holds = [&](const Tree& tree) {
    return tree.streams().contains(stream) && tree.job() == job;
  };
  // The next packet is usually of the same tree.
  if (found_.at < trees_.size() && holds(trees_[found_.at])) return &trees_[found_.at];
  const auto after =
      std::upper_bound(trees_.begin(), trees_.end(), Position{job, stream}, starts_after);
  if (after == trees_.begin() || !holds(*(after - 1))) return nullptr;
  found_.at = static_cast<std::size_t>(after - trees_.begin()) - 1;
  return &trees_[found_.at];
}

const Tree* TreeTable::conflicting(const JobKey& job, const StreamRange& streams) const {
  // The trees of one job are adjacent.
  auto tree = std::partition_point(trees_.begin(), trees_.end(),
                                   [&](const Tree& t) { return t.job() < job; });
  for (; tree != trees_.end() && tree->job() == job; ++tree) {
    if (tree->streams() != streams && tree->streams().overlaps(streams)) return &*tree;
  }
  return nullptr;
}

bool TreeTable::knows(const JobKey& job) const {
  const auto tree = std::partition_point(trees_.begin(), trees_.end(),
                                         [&](const Tree& t) { return t.job() < job; });
  return tree != trees_.end() && tree->job() == job;
}

bool TreeTable::knows_job(std::uint32_t job) const {
  const auto tree = std::partition_point(trees_.begin(), trees_.end(),
                                         [&](const Tree& t) { return t.job() < JobKey{job, 0}; });
  return tree != trees_.end() && tree->job().job == job;
}

Tree* TreeTable::make(const JobKey& job, const StreamRange& streams, std::size_t world_size,
                      Duration lease, const Quota& quota) {
  const auto after =
      std::upper_bound(trees_.begin(), trees_.end(), Position{job, streams.first}, starts_after);
  const Shares::Id share = shares_.enter(job, quota);
  bytes_ += Tree::bytes_needed(world_size, streams);
  return &*trees_.emplace(after, job, streams, world_size, value_limit_, share, lease);
}

TreeTable::Ended TreeTable::expire(Instant now) {
  Ended ended;
  for (Tree& tree : trees_) ended.leases += tree.expire(now);
  ended.trees = drop_if([](const Tree& tree) { return tree.known().empty(); });
  return ended;
}

std::size_t TreeTable::drop_departed() {
  return drop_if([](const Tree& tree) { return tree.departed(); });
}

template <class Condition>
std::size_t TreeTable::drop_if(Condition&& condition) {
  return std::erase_if(trees_, [&](const Tree& tree) {
    const bool goes = condition(tree);
    if (goes) {
      shares_.leave(tree.share());
      bytes_ -= Tree::bytes_needed(tree.world_size(), tree.streams());
    }
    return goes;
  });
}

}  // namespace atp
