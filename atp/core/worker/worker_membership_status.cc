// How a member reacts to each STATUS, and to nodes of another version (docs/inside/protocol §3.2).
#include "atp/core/worker/worker_membership.h"

namespace atp {
namespace {

MembershipChange ignored(WorkerTurn& turn) {
  turn.count(WorkerCounter::kStatusIgnored);
  return {};
}

// The answer to a JOIN carries its nonce; a twin behind the same switch receives it too.
bool is_meant(WorkerTurn& turn, const StatusMessage& status) {
  const bool meant = status.nonce == turn.config.nonce;
  if (!meant) turn.count(WorkerCounter::kDropWrongNonce);
  return meant;
}

// The node has no room for one more job, but may have later. One that drains is soon replaced.
bool has_no_room(const StatusMessage& status) {
  if (status.code != StatusCode::kRefused) return false;
  const RefusalReason reason = status.refusal().reason;
  return reason == RefusalReason::kTooManyJobs || reason == RefusalReason::kMemory ||
         reason == RefusalReason::kDraining || reason == RefusalReason::kTenantJobs ||
         reason == RefusalReason::kTenantMemory;
}

// K is agreed once all ranks have joined. So this rank has joined too, with its straight JOIN: its
// JOIN through the tree came too late to lower K, for example because the server was stopped.
bool is_in_straight(const StatusMessage& status) {
  return status.code == StatusCode::kRefused &&
         status.refusal().reason == RefusalReason::kValueCount;
}

// What the rank says contradicts what others have said.
bool is_contradiction(const Failure& refusal) {
  const bool is_shared =
      refusal.reason == RefusalReason::kWorldSize || refusal.reason == RefusalReason::kStreams;
  return is_shared && !refusal.other.empty();
}

}  // namespace

MembershipChange WorkerMembership::handle_status(WorkerTurn& turn, Path path,
                                                 const PacketView& packet,
                                                 const StatusMessage& status, bool pending) {
  const Endpoint& from = server(turn.config);
  // The answer to a straight packet carries DIRECT; an announcement to all does not.
  const bool is_answer = packet.has(ATP_FLAG_DIRECT);
  const std::size_t hop = packet.switches_passed();  // of the node that sent it
  if (path == Path::kStraight) hear_straight(turn);  // whatever the code
  switch (status.code) {
    case StatusCode::kWaitingFor:
      turn.count(WorkerCounter::kWaitingForReceived);
      hear_server(turn, path);
      if (path == Path::kTree) hear_tree(turn.now);
      on_waiting_for(turn, status, is_answer);
      return {};
    case StatusCode::kUnknownJob:
      turn.count(WorkerCounter::kUnknownJobReceived);
      if (status.about.contains(turn.config.rank) && joined()) on_unknown_job(turn);
      return {};
    case StatusCode::kRankTaken:
    case StatusCode::kRefused:
      if (status.nonce == 0 && !status.about.empty() && !status.about.contains(turn.config.rank)) {
        return on_peer_refused(turn, status);
      }
      // What answers a straight JOIN has DIRECT. Without it, this is somebody's copy of what a
      // switch has once said.
      if (path == Path::kStraight && has_switch(turn.config) && !is_answer) return ignored(turn);
      return on_join_turned_down(turn, path, sender(turn.config, path, hop), status);
    case StatusCode::kLeaseEnded:
      if (status.nonce != 0 && !is_meant(turn, status)) return {};  // 0: sent to all
      note_detail(status);
      return MembershipChange::failed(
          {.code = FailureCode::kRankLost, .ranks = status.about, .endpoint = from});
    case StatusCode::kLeft: return on_left(turn, status, pending);
    case StatusCode::kServerRestarted:
      if (!is_meant(turn, status)) return {};
      return MembershipChange::failed({.code = FailureCode::kServerRestarted, .endpoint = from});
    case StatusCode::kHere:
      if (is_meant(turn, status) && path == Path::kTree) questions_.hear(turn.now, hop);
      return {};
    case StatusCode::kProve:
      if (path == Path::kStraight && has_switch(turn.config) && !is_answer) return ignored(turn);
      return on_prove(turn, path, status);
    case StatusCode::kVersions: return on_versions(turn, sender(turn.config, path, hop), status);
    case StatusCode::kOperationMismatch:  // the worker handles it
    case StatusCode::kDetached:
    case StatusCode::kAreYouThere:
    case StatusCode::kOperation:
    case StatusCode::kCount: break;
  }
  return ignored(turn);
}

// Without a nonce it is about another rank, which matters only while an operation waits for it.
MembershipChange WorkerMembership::on_left(WorkerTurn& turn, const StatusMessage& status,
                                           bool pending) {
  const Endpoint& from = server(turn.config);
  if (status.nonce == 0) {
    if (!pending) return ignored(turn);
    note_detail(status);
    return MembershipChange::failed(
        {.code = FailureCode::kRankLeft, .ranks = status.about, .endpoint = from});
  }
  if (!is_meant(turn, status)) return {};
  if (state_ == State::kJoining) {
    return MembershipChange::failed(
        {.code = FailureCode::kLeftBefore, .ranks = status.about, .endpoint = from});
  }
  if (state_ != State::kLeaving) return ignored(turn);
  end(turn);
  return {};
}

void WorkerMembership::on_waiting_for(WorkerTurn& turn, const StatusMessage& status,
                                      bool is_answer) {
  refused_.reset();  // the job has room after all: only its ranks get this
  // Ranks that disagree are also told about fragments that they have not sent themselves. It is
  // more useful to report that others have not sent what this rank waits for.
  if (status.about.contains(turn.config.rank) && !missing_.empty()) return;
  missing_ = status.about;
  if (!joined()) return;
  note_detail(status);
  if (status.about.empty() || status.about.contains(turn.config.rank)) return;
  // The server answers repeats at any time, but tells all ranks only after a second of waiting.
  if (is_answer) return;
  if (waiting_since_ == kNever) waiting_since_ = turn.now - turn.config.timing.waiting_for;
  if (turn.now >= waiting_since_ + turn.config.tell_waiting) tell_of_waiting(turn, status.about);
}

// Reports each rank once per episode of waiting, and does not repeat those of a recent episode.
void WorkerMembership::tell_of_waiting(WorkerTurn& turn, const RankSet& ranks) {
  if (waiting_named_.contains(ranks)) return;
  const bool lately = turn.now < named_at_ + turn.config.tell_waiting_pause;
  if (lately && named_last_.contains(ranks)) return;
  waiting_named_ |= ranks;
  named_last_ = waiting_named_;
  named_at_ = turn.now;
  turn.events.push_news(
      {.kind = EventKind::kWaiting, .failure = {.code = FailureCode::kNoProgress, .ranks = ranks}});
}

void WorkerMembership::end_waiting(WorkerTurn& turn) {
  if (!waiting_named_.empty()) {
    turn.events.push_news({.kind = EventKind::kWaitingOver,
                           .failure = {.code = FailureCode::kNoProgress, .ranks = waiting_named_},
                           .waited = turn.now - waiting_since_});
  }
  missing_.clear();
  waiting_named_.clear();
  waiting_since_ = kNever;
}

// The first STATUS that ends the job has the ranks and the cause that count.
void WorkerMembership::note_detail(const StatusMessage& status) {
  if (!in_job()) return;
  detail_ = {status.endpoints, status.endpoint_count, {}};
  // The text of *waiting for* is not a cause.
  if (status.code != StatusCode::kWaitingFor) detail_.cause = status.cause;
}

// Another rank was refused. It may be restarted correctly, so the job keeps waiting for it.
MembershipChange WorkerMembership::on_peer_refused(WorkerTurn& turn, const StatusMessage& status) {
  const Refusal refusal = status.refusal();
  const Failure news{.code = FailureCode::kRefused,
                     .reason = refusal.reason,
                     .expected = refusal.expected,
                     .found = refusal.found,
                     .ranks = status.about,
                     .other = refusal.holders};
  if (state_ != State::kJoining || news == peer_refused_) return ignored(turn);
  peer_refused_ = news;
  turn.events.push_news({.kind = EventKind::kPeerRefused, .failure = news});
  return {};
}

// A node of a later version answers in this version's format with the versions that it supports.
MembershipChange WorkerMembership::on_versions(WorkerTurn& turn, const Endpoint& by,
                                               const StatusMessage& status) const {
  const int lowest = status.reason >> 8;
  const int highest = status.reason & 0xff;
  if (state_ != State::kJoining || (lowest <= ATP_VERSION && ATP_VERSION <= highest)) {
    return ignored(turn);
  }
  return MembershipChange::failed({.code = FailureCode::kRefused,
                                   .reason = RefusalReason::kVersion,
                                   .expected = status.reason,
                                   .found = versions_number(ATP_VERSION, ATP_VERSION),
                                   .ranks = RankSet::of(turn.config.rank),
                                   .endpoint = by});
}

void WorkerMembership::on_unknown_job(WorkerTurn& turn) {
  repeat_after_join_ = true;
  // Many packets report one lost table; one JOIN answers them all.
  if (turn.now - tree_join_.last_sent() < turn.config.timing.answer_pause) return;
  join_again(turn.now, turn.config.timing);
}

// The next node of this path asks whether the worker receives what is sent to it, or passes on that
// question of the node above it. Without a switch both paths lead to the same node.
MembershipChange WorkerMembership::on_prove(WorkerTurn& turn, Path path,
                                            const StatusMessage& status) {
  if (!is_meant(turn, status)) return {};
  turn.count(WorkerCounter::kProveReceived);
  if (has_switch(turn.config)) {
    proofs_[static_cast<std::size_t>(path)] = status.proof();
  } else {
    proofs_.fill(status.proof());
  }
  (path == Path::kTree ? tree_join_ : straight_join_).prompt(turn.now, turn.config.timing);
  const bool ends = state_ == State::kJoining && path == Path::kStraight && refused_ &&
                    is_contradiction(refused_->failure);
  return ends ? on_contradiction(turn, refused_->failure) : MembershipChange{};
}

// The tree has refused this rank because its JOIN contradicts those of others. They learn why it
// does not come from the server, so this rank goes as soon as the server can know.
MembershipChange WorkerMembership::on_contradiction(WorkerTurn& turn, const Failure& refusal) {
  if (proofs_[static_cast<std::size_t>(Path::kStraight)] != 0) {
    send_join(turn, Path::kStraight);
    return MembershipChange::failed(refusal);
  }
  if (!refused_) refused_ = {refusal, turn.now + turn.config.timing.join_refresh};
  return {};
}

// The refusal of a key has no tag, so whoever has seen this rank's nonce can forge it.
bool WorkerMembership::is_unproven(const WorkerConfig& config, const StatusMessage& status) const {
  return config.has_key && joined() && status.code == StatusCode::kRefused &&
         status.refusal().reason == RefusalReason::kKey;
}

// The node that sent a packet which has passed so many switches on its way down.
const Endpoint& WorkerMembership::sender(const WorkerConfig& config, Path path, std::size_t hop) {
  if (path == Path::kStraight) return server(config);
  return hop < config.route.size() ? config.route[hop] : parent(config);
}

MembershipChange WorkerMembership::on_join_turned_down(WorkerTurn& turn, Path path,
                                                       const Endpoint& by,
                                                       const StatusMessage& status) {
  if (!is_meant(turn, status)) return {};
  const Refusal said = status.refusal();
  // Somebody has taken a JOIN of this rank to a node to which its route did not lead it.
  if (said.arrived_at != said.meant_for && said.meant_for != by) return ignored(turn);
  // A member that is refused through the tree has a bad tree, not a bad membership: a switch
  // returned with a smaller K, a full table or another list of upstreams. The straight path still
  // works. The same holds for a new job for which a switch has no room.
  const bool is_full = has_no_room(status);
  if (is_unproven(turn.config, status)) {
    hint_ = {RefusalReason::kKey, status.numbers[0]};
    return {};
  }
  const bool is_bad_tree = joined() || !attached() || is_full || is_in_straight(status);
  const bool is_by_tree = path == Path::kTree && has_switch(turn.config);
  const bool detaches = is_by_tree && is_bad_tree;
  // A server refuses only JOINs that begin a job for lack of room: this answers an earlier one.
  if (!detaches && is_full && joined()) return ignored(turn);
  Failure failure;
  failure.ranks = status.about;
  failure.endpoint = by;
  if (status.code == StatusCode::kRankTaken) {
    failure.code = FailureCode::kRankTaken;
    if (status.endpoint_count > 0) failure.endpoint = status.endpoints[0];
  } else {
    failure.code = FailureCode::kRefused;
    failure.reason = said.reason;
    failure.expected = said.expected;
    failure.found = said.found;
    failure.other = said.holders;
    failure.arrived_at = said.arrived_at;
    failure.meant_for = said.meant_for;
  }
  if (detaches) {
    failure.endpoint = by;
    return detach(turn, failure);
  }
  const bool is_joining = state_ == State::kJoining;
  // A job that has just crashed keeps its place until its leases have ended.
  if (is_full && is_joining) {
    if (!refused_) {
      refused_ = {failure, turn.now + lease(turn.config) + turn.config.timing.join_refresh};
      turn.events.push_news({.kind = EventKind::kNoRoom, .failure = failure});
    }
    refused_->failure = failure;
    return {};
  }
  if (is_by_tree && is_joining && is_contradiction(failure)) {
    return on_contradiction(turn, failure);
  }
  return MembershipChange::failed(failure);
}

// Before this rank has joined, such a node will never admit it. Afterwards such packets are
// ignored.
MembershipChange WorkerMembership::handle_other_version(WorkerTurn& turn, const Endpoint& from,
                                                        std::uint8_t version) {
  const bool is_asked = from == parent(turn.config) || from == server(turn.config);
  if (state_ != State::kJoining || !is_asked) return {};
  if (turn.config.has_key) {
    hint_ = {RefusalReason::kVersion, version};
    return {};
  }
  return MembershipChange::failed({.code = FailureCode::kRefused,
                                   .reason = RefusalReason::kVersion,
                                   .expected = versions_number(version, version),
                                   .found = versions_number(ATP_VERSION, ATP_VERSION),
                                   .ranks = RankSet::of(turn.config.rank),
                                   .endpoint = from});
}

}  // namespace atp
