#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "atp/base/counters.h"
#include "atp/base/time.h"
#include "atp/core/answer_pacer.h"
#include "atp/core/outbox.h"
#include "atp/core/server/job.h"
#include "atp/core/server/server_counter.h"
#include "atp/core/server/server_turn.h"

// The parameter server: root of every tree, and the only node that decides that a fragment is
// complete (docs/inside/protocol §6). It holds a table of jobs and passes each packet to its job. A
// packet without a job is dropped, counted under a name of its own and, if that helps an honest
// sender, answered. The rules of a job are in job.h and aggregation.h.
//
// The first JOIN makes a job, unless the table or the memory limit is exhausted, and it ends with
// its last lease. No number from the wire is used as an index before a lookup or a ring has checked
// it (§7.5). Once all ranks of a job have joined, none of its packets allocates.

namespace atp {

class Server {
 public:
  explicit Server(const ServerConfig& config);

  // `to`: the address of this node at which the packet has arrived.
  void handle_packet(Instant now, const Endpoint& from, const Endpoint& to,
                     std::span<const std::uint8_t> bytes, Outbox& out);
  // An ICMP error about a packet to `whom`. It is only counted: JOINs and leases alone decide
  // whether a rank is detached or lost.
  void handle_unreachable(Instant now, const Endpoint& whom, Outbox& out);
  // A packet whose tag the driver does not accept (docs/inside/protocol §2, *Keys*), without its
  // tag.
  void refuse_key(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                  KeyProblem problem, Outbox& out);
  void handle_timeout(Instant now, Outbox& out);
  Instant next_timeout() const { return next_timeout_; }

  // While set, every PARAMETER carries ECN, because the server's receive queue is long or drops
  // packets (H36).
  void set_congested(bool congested) { congested_ = congested; }

  // From this call on, JOINs of unknown jobs are refused (docs/inside/protocol §2, *Draining*).
  void drain() { draining_ = true; }
  bool draining() const { return draining_; }

  const Counters<ServerCounter>& counters() const { return counters_; }
  const JobFailures& failures() const { return failures_; }
  std::size_t job_count() const { return jobs_.size(); }
  bool knows(const JobKey& key) const {
    const auto first = jobs_.lower_bound({key, 0});
    return first != jobs_.end() && first->first.key == key;
  }
  // Whether there is a job of this number, whosever it is.
  bool knows_job(std::uint32_t job) const {
    const auto first = jobs_.lower_bound({{job, 0}, 0});
    return first != jobs_.end() && first->first.key.job == job;
  }
  // Calls visit(const JobSummary&) for each job, in the order of job, tenant, incarnation and
  // stream.
  template <class Visit>
  void for_each_job(Instant now, Visit&& visit) const {
    for (const auto& [range, entry] : jobs_) {
      visit(entry.job.summary(now));
    }
  }

  bool operator==(const Server&) const = default;

 private:
  // Ordered so that the range of a stream is the last one that begins at or before it.
  struct RangeKey {
    JobKey key;
    std::uint16_t first_stream = 0;
    auto operator<=>(const RangeKey&) const = default;
  };
  struct Entry {
    Job job;
    std::size_t bytes = 0;  // counted against the memory limit
    bool operator==(const Entry&) const = default;
  };
  using Jobs = std::map<RangeKey, Entry>;

  ServerTurn begin_turn(Instant now, Outbox& out);
  Jobs::iterator find(const JobKey& key, std::uint16_t stream);
  std::optional<Rejection> rejection_of(const Arrival& in, const Join& join) const;
  std::optional<Rejection> forgotten(const PacketView& packet, const Join& join) const;
  void tell_others(ServerTurn& turn, const PacketView& packet, const Join& join,
                   const StatusMessage& answer);
  void tell_of_other_incarnations(ServerTurn& turn, Jobs::iterator job);
  Jobs::iterator find_or_make(ServerTurn& turn, const PacketView& packet, const Join& join);
  static Refusal objection(const Join& join, const Endpoint& to);
  Refusal objection_to_new(const PacketView& packet, const Join& join) const;
  Refusal objection_by_quota(const JobKey& job, std::size_t bytes) const;
  // The job whose stream range overlaps the JOIN's, or null.
  const Job* overlapping(const JobKey& key, const Join& join) const;
  void after(Jobs::iterator job);

  void refuse_bytes(ServerTurn& turn, const Endpoint& from, std::span<const std::uint8_t> bytes,
                    ParseError error);
  // Whether a packet of `cause_bytes` from a sender that is not a member may be answered.
  bool may_answer(ServerTurn& turn, const Endpoint& to, std::size_t cause_bytes,
                  std::uint8_t bitmap_words, const StatusMessage& message,
                  AnswerPacer::To receiver = AnswerPacer::To::kAnybody);
  void answer_paced(ServerTurn& turn, const Arrival& in, const RankSet& ranks,
                    const StatusMessage& message,
                    AnswerPacer::To receiver = AnswerPacer::To::kAnybody);
  AnswerPacer::To relation_of(const Arrival& in, const Join& join) const;
  void handle_join(ServerTurn& turn, const Arrival& in);
  void handle_leave(ServerTurn& turn, const Arrival& in);
  void handle_status(ServerTurn& turn, const Arrival& in);
  void handle_gradient(ServerTurn& turn, const Arrival& in);
  ServerCounter unknown_counter(const PacketView& packet) const;
  void answer_unknown_job(ServerTurn& turn, const Arrival& in, const RankSet& ranks);

  ServerConfig config_;
  Counters<ServerCounter> counters_;
  AnswerPacer pacer_;
  Jobs jobs_;
  JobFailures failures_;
  std::size_t bytes_ = 0;
  Instant next_timeout_ = kNever;
  Instant last_turn_ = Instant::max();
  bool congested_ = false;
  bool draining_ = false;
};

}  // namespace atp
