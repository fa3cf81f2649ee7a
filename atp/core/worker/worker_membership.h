#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "atp/base/rank_set.h"
#include "atp/base/time.h"
#include "atp/core/worker/attachment.h"
#include "atp/core/worker/route_questions.h"
#include "atp/core/worker/worker_turn.h"
#include "atp/wire/join.h"
#include "atp/wire/status.h"

// A worker's membership of its job (docs/inside/protocol §2; §5, *Detaching*): it joins on two
// paths, keeps both leases alive, notices when the tree or the server falls silent, detaches,
// returns and leaves. It sends JOIN, LEAVE and probes, no fragments: it returns each change to the
// worker, which acts on it.

namespace atp {

// What the worker must do, in this order.
struct MembershipChange {
  bool new_path = false;           // repeat everything outstanding on the new path
  bool agreed = false;             // joined: agreement() has the terms
  std::optional<Failure> failure;  // the job is over

  static MembershipChange failed(const Failure& failure) { return {.failure = failure}; }
};

class WorkerMembership {
 public:
  enum class Path : std::uint8_t { kTree, kStraight };

  void start(Instant now, const WorkerConfig& config);
  // The job is over: stops joining. False if it was over already.
  bool fail();
  // Sends LEAVE from now on, if there is a membership to leave. False if not: it has left.
  bool leave(Instant now, const WorkerConfig& config, std::string_view cause = {});
  bool leaving() const { return state_ == State::kLeaving || state_ == State::kLeft; }

  bool joined() const { return state_ == State::kJoined; }
  bool attached() const { return attachment_.attached(); }
  const JoinAck& agreement() const { return agreed_; }
  Duration lease(const WorkerConfig& config) const {
    return is_member() ? std::chrono::milliseconds(agreed_.lease_ms) : config.timing.lease;
  }
  const RankSet& missing() const { return missing_; }  // as the server last reported
  // Since when these ranks have been awaited; kNever if there are none.
  Instant waiting_since() const { return waiting_since_; }
  const FailureDetail& detail() const { return detail_; }

  Instant next_timeout(const WorkerConfig& config) const;
  MembershipChange handle_timeout(WorkerTurn& turn);
  MembershipChange handle_join_ack(WorkerTurn& turn, Path path, const PacketView& packet);
  // `pending`: whether operations are pending.
  MembershipChange handle_status(WorkerTurn& turn, Path path, const PacketView& packet,
                                 const StatusMessage& status, bool pending);
  MembershipChange handle_unreachable(WorkerTurn& turn, const Endpoint& whom);
  // A packet of another protocol version has arrived.
  MembershipChange handle_other_version(WorkerTurn& turn, const Endpoint& from,
                                        std::uint8_t version);
  // Any message from the server.
  void hear_server(WorkerTurn& turn, Path path);

  // A timer repeated a fragment on rung 2 or 3: a rank is late, or the tree is dead.
  void on_resend(WorkerTurn& turn) { suspect_tree(turn); }
  // A fragment is complete, so no rank is missing.
  void on_answer(WorkerTurn& turn) {
    if (waiting_since_ != kNever || !missing_.empty()) end_waiting(turn);
  }

  bool operator==(const WorkerMembership&) const = default;

 private:
  static bool has_switch(const WorkerConfig& config) { return config.route.size() > 1; }
  static const Endpoint& parent(const WorkerConfig& config) { return config.route.front(); }
  static const Endpoint& server(const WorkerConfig& config) { return config.route.back(); }

  enum class State : std::uint8_t { kIdle, kJoining, kJoined, kFailed, kLeaving, kLeft };

  // Has joined, whatever has happened since.
  bool is_member() const { return agreed_.stream_count > 0; }
  bool in_job() const { return state_ == State::kJoining || state_ == State::kJoined; }
  Instant tree_lease_end(const WorkerConfig& config) const;
  Instant suspicion_end(const WorkerConfig& config) const;
  // When to tell the application that the server is silent.
  Instant silence_told_at(const WorkerConfig& config) const;
  // When to ask the nodes of the route, because the server is silent.
  Instant route_asked_at(const WorkerConfig& config) const;

  static const Endpoint& sender(const WorkerConfig& config, Path path, std::size_t hop);

  void send_join(WorkerTurn& turn, Path path);
  void send_leave(WorkerTurn& turn);
  void ask_route(WorkerTurn& turn);
  void end(WorkerTurn& turn);
  MembershipChange check_silence(WorkerTurn& turn);
  void hear_tree(Instant now);
  void hear_straight(const WorkerTurn& turn);
  void suspect_tree(WorkerTurn& turn);
  void suspect_tree_without_answers(WorkerTurn& turn);
  MembershipChange judge_tree(WorkerTurn& turn);
  bool is_unproven(const WorkerConfig& config, const StatusMessage& status) const;
  Failure with_hint(Failure failure) const;
  Failure server_lost(const WorkerConfig& config) const;
  void on_waiting_for(WorkerTurn& turn, const StatusMessage& status, bool is_answer);
  void tell_of_waiting(WorkerTurn& turn, const RankSet& ranks);
  void end_waiting(WorkerTurn& turn);
  MembershipChange on_left(WorkerTurn& turn, const StatusMessage& status, bool pending);
  MembershipChange on_peer_refused(WorkerTurn& turn, const StatusMessage& status);
  MembershipChange on_versions(WorkerTurn& turn, const Endpoint& by,
                               const StatusMessage& status) const;
  void note_detail(const StatusMessage& status);
  // `refusal`: what turned the rank away from the tree; none: silence.
  MembershipChange detach(WorkerTurn& turn, const Failure& refusal = {});
  Instant tree_asked_from(const Timing& timing) const;
  void tell_of_detaching(WorkerTurn& turn);
  void attach(WorkerTurn& turn);
  void join_again(Instant now, const Timing& timing);
  void on_unknown_job(WorkerTurn& turn);
  MembershipChange on_prove(WorkerTurn& turn, Path path, const StatusMessage& status);
  MembershipChange on_join_turned_down(WorkerTurn& turn, Path path, const Endpoint& by,
                                       const StatusMessage& status);
  MembershipChange on_contradiction(WorkerTurn& turn, const Failure& refusal);
  Instant refused_until() const { return refused_ ? refused_->until : kNever; }

  State state_ = State::kIdle;
  Attachment attachment_;
  JoinSchedule tree_join_;
  JoinSchedule straight_join_;
  std::array<std::uint64_t, 2> proofs_{};  // by path
  JoinSchedule leave_;
  Instant started_{};
  Instant left_by_ = kNever;  // when to give up LEAVE
  Instant server_heard_{};
  Instant tree_heard_ = kNever;  // kNever: not yet
  Instant straight_heard_{};
  Instant straight_since_ = kNever;             // since when only the straight path has answered
  Instant straight_returned_ = Instant::min();  // when it answered a JOIN that had to be repeated
  RouteQuestions questions_;
  bool server_unreachable_ = false;
  Instant suspected_ = kNever;  // when the tree became suspect; a straight answer confirms it
  Instant convicted_ = kNever;  // when the tree counts as dead, unless it answers before
  Instant parent_unreachable_ = Instant::min();  // when an ICMP error about it came last
  Instant detaching_told_at_ = kNever;  // when to tell the application that the worker is detached
  bool detaching_told_ = false;
  Failure refused_by_tree_;  // why it detached, if it was refused
  bool silence_told_ = false;
  bool repeat_after_join_ = false;  // the tree had forgotten this rank
  RankSet missing_;
  // While joining: how and when it ends, unless it joins before.
  struct Refused {
    Failure failure;
    Instant until;
    bool operator==(const Refused&) const = default;
  };
  std::optional<Refused> refused_;
  Instant waiting_since_ = kNever;  // since when there has been no answer but a *waiting for*
  RankSet waiting_named_;           // the ranks named to the application since then
  RankSet named_last_;              // the ranks named to it last, and when
  Instant named_at_ = Instant::min();
  Failure peer_refused_;  // the last one reported
  // What a packet without a tag said, since the server was last heard; kNone: there was none.
  struct Hint {
    RefusalReason reason = RefusalReason::kNone;
    std::uint32_t said = 0;  // kVersion: the version; kKey: the KeyProblem
    bool operator==(const Hint&) const = default;
  } hint_;
  FailureDetail detail_;
  CauseText cause_;  // for LEAVE
  JoinAck agreed_;
};

}  // namespace atp
