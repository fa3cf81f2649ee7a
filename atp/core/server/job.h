#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "atp/core/server/aggregation.h"
#include "atp/core/server/downlink.h"
#include "atp/core/server/job_failure.h"
#include "atp/core/server/members.h"
#include "atp/core/server/server_turn.h"

// One job, or rather one stream range of one incarnation of it, with a tree of its own
// (docs/inside/protocol §2). It is *joining* until all ranks have joined. Then its terms are fixed,
// the memory for its sums is allocated, and every JOIN gets a JOIN_ACK on the path that it came by.
// It ends when every rank has left or is lost, or, while joining, when all leases have ended. Three
// source files: job_joining.cc (how ranks join), job_leaving.cc (how they leave or detach), job.cc
// (the rest).

namespace atp {

// For displays.
struct JobSummary {
  JobTerms terms;
  bool joining = true;
  RankSet joined;
  RankSet missing;   // while joining
  RankSet detached;  // reached directly, not through the tree
  RankSet lost;
  RankSet left;
  RankSet waited_for;  // by fragments to which others contributed a while ago
  // The same, but for a second or more, which is longer than a rank that computes between sums
  // should take.
  std::optional<WaitedFor> stuck;
  CauseText stuck_operation;  // what the others call it; empty: unknown
  // These two refer to the job, so they are valid only until it changes.
  const JobMembers* members = nullptr;
  std::span<const RankLateness> lateness;  // by rank, once all have joined
  bool has_switches = false;               // some rank's route has one
  AggregationProgress progress;

  // Where a rank is; unset if no packet has come straight from it.
  Endpoint home_of(Rank rank) const { return members->record(rank).own; }
};

class Job {
 public:
  // The first JOIN sets the terms that the others must match; their JOINs may only lower K.
  Job(const JobKey& key, const Join& first, const ServerConfig& config, Instant now);
  static std::size_t bytes_needed(const JobKey& key, const Join& first, const ServerConfig& config);

  // Why a JOIN is rejected, if it is; it must be of exactly one rank. Only call handle_join() for
  // one that is not.
  std::optional<Rejection> rejection_of(const Arrival& in, const Join& join) const;
  void handle_join(ServerTurn& turn, const Arrival& in, const Join& join);
  // False if the rank is not a member.
  bool handle_leave(ServerTurn& turn, const Arrival& in, const Leave& leave);
  // Returns the ranks of the packet that are unknown to the job: they must join again.
  RankSet handle_gradient(ServerTurn& turn, const Arrival& in);
  // A rank says what it calls an operation.
  void handle_description(ServerTurn& turn, const Arrival& in, const CauseText& text);

  void handle_timeout(ServerTurn& turn);
  // Lets no lease end before `until`.
  void postpone_ends_of_leases(Instant until) { leases_at_ = std::max(leases_at_, until); }
  Instant next_timeout() const;

  bool finished() const { return finished_; }
  // Why the job has failed; returned only once.
  std::optional<JobFailure> take_failure();
  bool joining() const { return !aggregation_.has_value(); }
  const JobTerms& terms() const { return terms_; }
  const JobMembers& members() const { return members_; }
  JobSummary summary(Instant now) const;
  // Tells the ranks that have joined and wait for others why one of those was refused, or that it
  // waits in another incarnation: STATUS *refused* without a nonce, at most once a second.
  void tell_of_refused(ServerTurn& turn, const Refusal& refusal, const RankSet& about);

  bool operator==(const Job&) const = default;

 private:
  Downlink downlink(ServerTurn& turn) { return {turn, terms_, members_}; }
  RankSet joined(const ServerTurn& turn) const;

  Refusal objection(const Arrival& in, const Join& join) const;
  // The counter under which to drop a GRADIENT, or kCount to take it.
  ServerCounter fault_of(const PacketView& packet, Source source) const;
  // The same for a LEAVE.
  ServerCounter fault_of_leave(const Arrival& in, const Leave& leave) const;
  void complete_if_all_in(ServerTurn& turn);
  void acknowledge(ServerTurn& turn, const Endpoint& to, Rank rank, const Detaching& detaching,
                   std::uint8_t flags);
  void acknowledge_all(ServerTurn& turn);
  void answer_missing(ServerTurn& turn, const Endpoint& from, Rank rank, std::uint8_t flags);

  void answer_lost(ServerTurn& turn, const Endpoint& from, Rank rank, std::uint8_t flags);

  void end_leases(ServerTurn& turn);
  struct Gone {
    FragmentName name;
    StatusMessage message;
  };
  // What to say while ranks are gone that a fragment needs.
  Gone gone(Downlink& down);
  void announce_gone(ServerTurn& turn);
  void find_culprit();
  void announce_detached(ServerTurn& turn);
  void finish_if_all_gone();
  void note_failure(Instant now, Rank rank, const CauseText& cause);

  JobTerms terms_;
  JobMembers members_;
  std::optional<Aggregation> aggregation_;
  bool finished_ = false;
  Instant made_at_;
  Instant leases_at_ = kNever;   // no lease ends before this
  Instant joining_at_ = kNever;  // when to check again whether all have joined
  Instant detached_at_ = kNever;
  Instant gone_at_ = kNever;
  Instant gone_announced_ = kLongAgo;
  Instant refused_told_ = kLongAgo;
  // The first ranks to leave, in order, with the causes that they gave.
  struct Departure {
    Rank rank = 0;
    CauseText cause;
    bool operator==(const Departure&) const = default;
  };
  std::array<Departure, 8> departures_{};
  std::size_t departure_count_ = 0;
  // The first of them that a fragment lacks; those that leave later do so because of it.
  std::optional<Departure> culprit_;
  std::optional<JobFailure> failure_;
  bool failure_taken_ = false;
};

// Tells the sender of a LEAVE that its rank is no longer a member.
StatusMessage left_status(const PacketView& packet, const Leave& leave);

}  // namespace atp
