#include "atp/core/worker/worker_membership.h"

namespace atp {
namespace {

bool has_switch(const WorkerConfig& config) { return config.route.size() > 1; }

const Endpoint& parent(const WorkerConfig& config) { return config.route.front(); }

const Endpoint& server(const WorkerConfig& config) { return config.route.back(); }

ControlHead head_of(const WorkerConfig& config, PacketType type, bool straight) {
  return {.type = type,
          .flags = static_cast<std::uint8_t>(straight ? ATP_FLAG_DIRECT : 0),
          .bitmap_words = bitmap_words_for(config.world_size),
          .job = config.job,
          .stream = config.first_stream};
}

MembershipChange failed(const Failure& failure) { return {.failure = failure}; }

// What answers a JOIN carries its nonce; a twin behind the same switch hears it, too.
bool is_meant(WorkerTurn& turn, const StatusMessage& status) {
  const bool meant = status.nonce == turn.config.nonce;
  if (!meant) turn.count(WorkerCounter::kDropWrongNonce);
  return meant;
}

// No room for one more job: with time there may be.
bool has_no_room(const StatusMessage& status) {
  if (status.code != StatusCode::kRefused) return false;
  const RefusalReason reason = status.refusal().reason;
  return reason == RefusalReason::kTooManyJobs || reason == RefusalReason::kMemory;
}

}  // namespace

void WorkerMembership::start(Instant now, const WorkerConfig& config) {
  ATP_CHECK(state_ == State::kIdle);
  state_ = State::kJoining;
  started_ = now;
  server_heard_ = now;
  join_again(now, config.timing);
}

bool WorkerMembership::fail() {
  if (state_ == State::kFailed || leaving()) return false;
  state_ = State::kFailed;
  tree_join_.stop();
  straight_join_.stop();
  return true;
}

bool WorkerMembership::leave(Instant now, const WorkerConfig& config, std::string_view cause) {
  cause_ = CauseText(cause);
  tree_join_.stop();
  straight_join_.stop();
  if (!is_member()) {
    state_ = State::kLeft;
    return false;
  }
  state_ = State::kLeaving;
  left_by_ = now + lease(config);
  leave_.restart(now, config.timing);
  return true;
}

Instant WorkerMembership::silence_told_at(const WorkerConfig& config) const {
  if (state_ != State::kJoined || silence_told_) return kNever;
  // Until then the parent was asked twice whether it is there.
  return server_heard_ + std::max(lease(config) / 2, config.timing.join_refresh * 5 / 2);
}

Instant WorkerMembership::next_timeout(const WorkerConfig& config) const {
  Instant next = std::min({tree_join_.next(), straight_join_.next(), leave_.next(), left_by_});
  next = std::min({next, tree_lease_end(config), silence_told_at(config), suspicion_end(config)});
  if (state_ == State::kJoining) {
    next = std::min({next, started_ + config.join_timeout, room_awaited_until(config)});
  }
  if (state_ == State::kJoined) next = std::min(next, server_heard_ + lease(config));
  return next;
}

// --- what is sent

void WorkerMembership::send_join(WorkerTurn& turn, Path path) {
  const WorkerConfig& config = turn.config;
  const bool straight = path == Path::kStraight;
  Join join;
  join.nonce = config.nonce;
  if (is_member()) join.server_boot_id = agreed_.server_boot_id;
  join.world_size = config.world_size;
  join.first_stream = config.first_stream;
  join.stream_count = config.stream_count;
  join.max_value_count = config.max_value_count;
  join.detached = !attached();
  join.number_format = config.number_format;
  join.detachments = attachment_.detachments();
  if (straight) {
    join.remaining.push_back(server(config));
  } else {
    join.remaining = config.route;
  }
  (straight ? straight_join_ : tree_join_).sent(turn.now, config.timing);
  const ControlHead head = head_of(config, PacketType::kJoin, straight);
  if (!put_join(turn.out, head, RankSet::of(config.rank), join)) return;
  turn.out.send_to(straight ? server(config) : parent(config));
  turn.count(WorkerCounter::kJoinsSent);
}

// Only who is silent too shares the blame for the server's silence.
void WorkerMembership::ask_parent(WorkerTurn& turn) {
  const WorkerConfig& config = turn.config;
  const bool silent = turn.now >= server_heard_ + config.timing.join_refresh * 3 / 2;
  if (!silent || !has_switch(config)) return;
  StatusMessage question;
  question.code = StatusCode::kAreYouThere;
  question.nonce = config.nonce;
  const ControlHead head = head_of(config, PacketType::kStatus, false);
  if (put_status(turn.out, head, RankSet::of(config.rank), question)) {
    turn.out.send_to(parent(config));
  }
}

void WorkerMembership::send_leave(WorkerTurn& turn) {
  const WorkerConfig& config = turn.config;
  leave_.sent(turn.now, config.timing);
  const RankSet self = RankSet::of(config.rank);
  const auto put = [&](bool straight) {
    return put_leave(turn.out, head_of(config, PacketType::kLeave, straight), self,
                     Leave{config.nonce, cause_});
  };
  if (attached() && put(false)) turn.out.send_to(parent(config));
  // The tree may have died unnoticed, so the later half of the tries goes straight as well; and all
  // where nothing has come for a lease, as something may still get out.
  const bool straight_too = !attached() || turn.now + lease(config) / 2 >= left_by_ ||
                            turn.now >= server_heard_ + lease(config);
  if (straight_too && has_switch(config) && put(true)) turn.out.send_to(server(config));
}

// --- time passes

MembershipChange WorkerMembership::handle_timeout(WorkerTurn& turn) {
  if (tree_join_.due(turn.now)) {
    send_join(turn, Path::kTree);
    ask_parent(turn);
  }
  if (straight_join_.due(turn.now)) send_join(turn, Path::kStraight);
  if (state_ == State::kLeaving) {
    if (turn.now >= left_by_) {
      end(turn);
    } else if (leave_.due(turn.now)) {
      send_leave(turn);
    }
  }
  return check_silence(turn);
}

void WorkerMembership::end(WorkerTurn& turn) {
  state_ = State::kLeft;
  leave_.stop();
  left_by_ = kNever;
  turn.events.push({.kind = EventKind::kLeft});
}

MembershipChange WorkerMembership::check_silence(WorkerTurn& turn) {
  const WorkerConfig& config = turn.config;
  MembershipChange change;
  if (turn.now >= suspicion_end(config)) {
    if (turn.now >= convicted_) change = detach(turn);
    acquit_tree();
  }
  if (turn.now >= silence_told_at(config)) {
    silence_told_ = true;
    turn.events.push_news({.kind = EventKind::kSilent, .failure = server_lost(config)});
  }
  // Nothing through the tree for a lease's time: start detached, or go on so (§2). The server lets
  // the rank's tree lease end at the same time.
  if (turn.now >= tree_lease_end(config)) change.new_path |= detach(turn).new_path;
  const Instant joined_by = std::min(started_ + config.join_timeout, room_awaited_until(config));
  if (state_ == State::kJoining && turn.now >= joined_by && no_room_) {
    change.failure = *no_room_;
  } else if (state_ == State::kJoining && turn.now >= joined_by) {
    change.failure = {.code = FailureCode::kJoinTimeout,
                      .ranks = missing_,
                      .endpoint = server(config),
                      .unreachable = server_unreachable_,
                      .parent_answers = parent_heard_ > started_};
  }
  if (state_ == State::kJoined && turn.now >= server_heard_ + lease(config)) {
    change.failure = server_lost(config);
  }
  return change;
}

Failure WorkerMembership::server_lost(const WorkerConfig& config) const {
  return {.code = FailureCode::kServerLost,
          .endpoint = server(config),
          .unreachable = server_unreachable_,
          .parent_answers = has_switch(config) && parent_heard_ > server_heard_};
}

// --- what is heard

void WorkerMembership::hear_server(WorkerTurn& turn, Path path) {
  server_heard_ = turn.now;
  server_unreachable_ = false;
  if (path == Path::kStraight) hear_straight(turn);
  if (!silence_told_) return;
  silence_told_ = false;
  turn.events.push_news({.kind = EventKind::kHeard, .endpoint = server(turn.config)});
}

MembershipChange WorkerMembership::handle_join_ack(WorkerTurn& turn, Path path,
                                                   const PacketView& packet) {
  const WorkerConfig& config = turn.config;
  hear_server(turn, path);
  if (path == Path::kTree) hear_tree(turn.now);
  if (!in_job()) {
    turn.count(WorkerCounter::kDropNotJoined);
    return {};
  }
  const std::optional<JoinAck> ack = JoinAck::read(packet.body);
  if (!ack || ack->world_size != config.world_size || ack->value_count > config.max_value_count ||
      ack->first_stream != config.first_stream || ack->stream_count != config.stream_count) {
    turn.count(WorkerCounter::kDropBadBody);
    return {};
  }
  if (ack->nonce != config.nonce) {
    turn.count(WorkerCounter::kDropWrongNonce);
    return {};
  }
  turn.count(WorkerCounter::kJoinsAnswered);
  if (joined() && ack->server_boot_id != agreed_.server_boot_id) {
    return failed({.code = FailureCode::kServerRestarted, .endpoint = server(config)});
  }
  MembershipChange change;
  const bool current =
      ack->detachments == attachment_.detachments() && ack->detached == !attached();
  if (current) {
    (path == Path::kTree ? tree_join_ : straight_join_).answer(turn.now, config.timing);
  }
  // A probe through the tree was answered: the tree lives again (F2: only by its own answer).
  if (current && path == Path::kTree && attachment_.may_return(turn.now)) {
    attach(turn);
    change.new_path = true;
  }
  // The straight answer alone does not tell whether the tree works, so an attached worker waits
  // for the tree's, or until it has detached.
  const bool settled = path == Path::kTree || !attached();
  if (state_ == State::kJoining && settled) {
    agreed_ = *ack;
    state_ = State::kJoined;
    missing_.clear();
    no_room_.reset();
    change.agreed = true;
  }
  if (path == Path::kStraight) change.new_path |= judge_tree(turn).new_path;
  if (path == Path::kTree && repeat_after_join_) {
    repeat_after_join_ = false;
    change.new_path = true;
  }
  return change;
}

MembershipChange WorkerMembership::handle_status(WorkerTurn& turn, Path path,
                                                 const StatusMessage& status, bool pending) {
  const Endpoint& from = server(turn.config);
  if (path == Path::kStraight) hear_straight(turn);  // whatever it says
  switch (status.code) {
    case StatusCode::kWaitingFor:
      turn.count(WorkerCounter::kWaitingForReceived);
      hear_server(turn, path);
      if (path == Path::kTree) hear_tree(turn.now);
      on_waiting_for(turn, status);
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
      return on_join_turned_down(turn, path, status);
    case StatusCode::kLeaseEnded:
      if (status.nonce != 0 && !is_meant(turn, status)) return {};  // 0: all are told
      note_detail(status);
      return failed({.code = FailureCode::kRankLost, .ranks = status.about, .endpoint = from});
    case StatusCode::kLeft:
      if (state_ == State::kLeaving && status.nonce == turn.config.nonce) {
        end(turn);
      } else if (status.nonce == 0 && pending) {
        note_detail(status);
        return failed({.code = FailureCode::kRankLeft, .ranks = status.about, .endpoint = from});
      } else if (state_ == State::kJoining && status.nonce == turn.config.nonce) {
        return failed({.code = FailureCode::kLeftBefore, .ranks = status.about, .endpoint = from});
      } else if (status.nonce != 0) {
        is_meant(turn, status);  // counts what answers a twin
      }
      return {};
    case StatusCode::kServerRestarted:
      if (!is_meant(turn, status)) return {};
      return failed({.code = FailureCode::kServerRestarted, .endpoint = from});
    case StatusCode::kHere:
      if (is_meant(turn, status) && path == Path::kTree) parent_heard_ = turn.now;
      return {};
    case StatusCode::kVersions: return on_versions(turn, path, status);
    case StatusCode::kOperationMismatch:
    case StatusCode::kDetached:
    case StatusCode::kAreYouThere:
    case StatusCode::kCount: break;
  }
  return {};
}

void WorkerMembership::on_waiting_for(WorkerTurn& turn, const StatusMessage& status) {
  attachment_.on_waiting_for();
  // Of ranks that disagree each hears of what it has not sent, too: that others have not sent what
  // it waits for says more.
  if (status.about.contains(turn.config.rank) && !missing_.empty()) return;
  missing_ = status.about;
  if (!joined()) return;
  note_detail(status);
  if (status.about.contains(turn.config.rank)) return;
  if (waiting_since_ == kNever) waiting_since_ = turn.now;
  const WorkerConfig& config = turn.config;
  // The server says so when it has waited for a second.
  const bool long_enough =
      turn.now >= waiting_since_ + config.tell_waiting - config.timing.waiting_for;
  if (!long_enough || turn.now < waiting_told_ + config.tell_waiting_pause) return;
  waiting_told_ = turn.now;
  turn.events.push_news({.kind = EventKind::kWaiting,
                         .failure = {.code = FailureCode::kNoProgress, .ranks = status.about}});
}

// The first to end the job is the one whose ranks and words count.
void WorkerMembership::note_detail(const StatusMessage& status) {
  if (!in_job()) return;
  detail_ = {status.endpoints, status.endpoint_count, status.cause};
}

// Another rank was turned away. It may be started again, as it should, so the job waits for it.
MembershipChange WorkerMembership::on_peer_refused(WorkerTurn& turn, const StatusMessage& status) {
  const Refusal refusal = status.refusal();
  const Failure news{.code = FailureCode::kRefused,
                     .reason = refusal.reason,
                     .expected = refusal.expected,
                     .found = refusal.found,
                     .ranks = status.about,
                     .other = refusal.holders};
  if (state_ != State::kJoining || news == peer_refused_) return {};
  peer_refused_ = news;
  turn.events.push_news({.kind = EventKind::kPeerRefused, .failure = news});
  return {};
}

// A later version answers in this one's words, which say what it speaks itself.
MembershipChange WorkerMembership::on_versions(WorkerTurn& turn, Path path,
                                               const StatusMessage& status) const {
  const int lowest = status.reason >> 8;
  const int highest = status.reason & 0xff;
  if (state_ != State::kJoining || (lowest <= ATP_VERSION && ATP_VERSION <= highest)) return {};
  return failed({.code = FailureCode::kRefused,
                 .reason = RefusalReason::kVersion,
                 .expected = status.reason,
                 .found = versions_number(ATP_VERSION, ATP_VERSION),
                 .ranks = RankSet::of(turn.config.rank),
                 .endpoint = path == Path::kTree ? parent(turn.config) : server(turn.config)});
}

void WorkerMembership::on_unknown_job(WorkerTurn& turn) {
  repeat_after_join_ = true;
  // One lost table is reported by many packets; one JOIN answers them all.
  if (turn.now - tree_join_.last_sent() < turn.config.timing.answer_pause) return;
  join_again(turn.now, turn.config.timing);
}

MembershipChange WorkerMembership::on_join_turned_down(WorkerTurn& turn, Path path,
                                                       const StatusMessage& status) {
  if (!is_meant(turn, status)) return {};
  // A member that is refused on its way through the tree has a bad tree, not a bad membership: a
  // switch returned with a smaller K, a full table or another list of upstreams. The way around it
  // still serves. So it does for a new job that a switch has no room for.
  const bool is_full = has_no_room(status);
  if (path == Path::kTree && has_switch(turn.config) && (joined() || !attached() || is_full)) {
    return detach(turn);
  }
  Failure failure;
  failure.ranks = status.about;
  failure.endpoint = path == Path::kTree ? parent(turn.config) : server(turn.config);
  if (status.code == StatusCode::kRankTaken) {
    failure.code = FailureCode::kRankTaken;
    if (status.endpoint_count > 0) failure.endpoint = status.endpoints[0];
  } else {
    const Refusal refusal = status.refusal();
    failure.code = FailureCode::kRefused;
    failure.reason = refusal.reason;
    failure.expected = refusal.expected;
    failure.found = refusal.found;
    failure.other = refusal.holders;
  }
  // Whoever crashed a moment ago still has its place, until its leases have ended.
  if (is_full && state_ == State::kJoining) {
    if (!no_room_) no_room_since_ = turn.now;
    no_room_ = failure;
    return {};
  }
  return failed(failure);
}

// Before it has joined: whoever answers so will never let it in. Afterwards it is noise.
MembershipChange WorkerMembership::handle_other_version(WorkerTurn& turn, const Endpoint& from,
                                                        std::uint8_t version) const {
  const bool is_asked = from == parent(turn.config) || from == server(turn.config);
  if (state_ != State::kJoining || !is_asked) return {};
  return failed({.code = FailureCode::kRefused,
                 .reason = RefusalReason::kVersion,
                 .expected = versions_number(version, version),
                 .found = versions_number(ATP_VERSION, ATP_VERSION),
                 .ranks = RankSet::of(turn.config.rank),
                 .endpoint = from});
}

}  // namespace atp
