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
#include "atp/core/server/members.h"
#include "atp/core/server/server_turn.h"

// One job, or rather one stream range of one incarnation of it: a tree of its own (docs/protocol.md
// §2). It is *joining* until all ranks are in; then its terms are fixed, the memory for its sums is
// taken, and every JOIN is answered by a JOIN_ACK the way it came. It ends when every rank has left
// or is lost, or, while joining, when no lease runs any more. Three source files: job_joining.cc
// how ranks come in, job_leaving.cc how they go or detach, job.cc the rest.

namespace atp {

// For displays.
struct JobSummary {
  JobTerms terms;
  bool joining = true;
  RankSet joined;
  RankSet missing;   // while joining
  RankSet detached;  // reached straight, not through the tree
  RankSet lost;
  RankSet left;
  RankSet waited_for;  // by fragments to which others have contributed a while ago
  // Likewise for a second and more, which nobody who computes between sums should take.
  std::optional<WaitedFor> stuck;
  std::vector<std::pair<Rank, Endpoint>> stuck_homes;  // where its ranks are, if that is known
  // By rank, once all are in; the job's own, so not for longer than the job stays as it is.
  std::span<const RankLateness> lateness;
  bool has_switches = false;  // some rank's way goes through one
  AggregationProgress progress;
};

class Job {
 public:
  // The first JOIN states what the others must agree to; K is lowered by theirs.
  Job(const JobKey& key, const Join& first, const ServerConfig& config, Instant now);
  static std::size_t bytes_needed(const JobKey& key, const Join& first, const ServerConfig& config);

  // Of exactly one rank. Only a JOIN that is not turned away may be handled.
  std::optional<Rejection> rejection_of(const PacketView& packet, const Join& join) const;
  void handle_join(ServerTurn& turn, const Arrival& in, const Join& join);
  // False if the rank is no member.
  bool handle_leave(ServerTurn& turn, const Arrival& in, const Leave& leave);
  // Returns the ranks that the job doesn't know behind the sender: they must join again.
  RankSet handle_gradient(ServerTurn& turn, const Arrival& in);

  void handle_timeout(ServerTurn& turn);
  // No lease ends before then.
  void postpone_ends_of_leases(Instant until) { leases_at_ = std::max(leases_at_, until); }
  Instant next_timeout() const;

  bool finished() const { return finished_; }
  bool joining() const { return !aggregation_.has_value(); }
  const JobTerms& terms() const { return terms_; }
  const JobMembers& members() const { return members_; }
  JobSummary summary(Instant now) const;
  // Tells the ranks that have joined, while they wait for the others, why one of these has not, or
  // that one waits in another incarnation: STATUS *refused* without a nonce. At most each second.
  void tell_of_refused(ServerTurn& turn, const Refusal& refusal, const RankSet& about);

  bool operator==(const Job&) const = default;

 private:
  Downlink downlink(ServerTurn& turn) { return {turn, terms_, members_}; }
  RankSet joined(const ServerTurn& turn) const;

  Refusal objection(const PacketView& packet, const Join& join) const;
  // Why a GRADIENT is to be dropped, or kCount.
  ServerCounter fault_of(const PacketView& packet, Source source) const;
  // The same of a LEAVE.
  ServerCounter fault_of_leave(const Arrival& in, const Leave& leave) const;
  void complete_if_all_in(ServerTurn& turn);
  void acknowledge(ServerTurn& turn, const Endpoint& to, Rank rank, const Detaching& detaching,
                   std::uint8_t flags);
  void acknowledge_all(ServerTurn& turn);
  void answer_missing(ServerTurn& turn, const Endpoint& from, Rank rank, std::uint8_t flags);

  void answer_lost(ServerTurn& turn, const Endpoint& from, Rank rank, std::uint8_t flags);

  void end_leases(ServerTurn& turn);
  void announce_gone(ServerTurn& turn);
  void find_culprit();
  void announce_detached(ServerTurn& turn);
  void finish_if_all_gone();

  JobTerms terms_;
  JobMembers members_;
  std::optional<Aggregation> aggregation_;
  bool finished_ = false;
  Instant made_at_;
  Instant leases_at_ = kNever;   // no lease ends before
  Instant joining_at_ = kNever;  // when to look again whether all are in
  Instant detached_at_ = kNever;
  Instant gone_at_ = kNever;
  Instant gone_announced_ = kLongAgo;
  Instant refused_told_ = kLongAgo;
  // The first to leave, in their order, with what they had to say.
  struct Departure {
    Rank rank = 0;
    CauseText cause;
    bool operator==(const Departure&) const = default;
  };
  std::array<Departure, 8> departures_{};
  std::size_t departure_count_ = 0;
  // The first of them that a fragment lacks: those that leave later do so because of it.
  std::optional<Departure> culprit_;
};

// What tells the sender of a LEAVE that its rank is a member no more.
StatusMessage left_status(const PacketView& packet, const Leave& leave);

}  // namespace atp
