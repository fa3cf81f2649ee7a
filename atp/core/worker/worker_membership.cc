// How a worker joins, keeps its leases, and leaves (docs/inside/protocol §2).
#include "atp/core/worker/worker_membership.h"

namespace atp {
namespace {

ControlHead head_of(const WorkerConfig& config, PacketType type, bool straight) {
  return {.type = type,
          .flags = static_cast<std::uint8_t>(straight ? ATP_FLAG_DIRECT : 0),
          .bitmap_words = bitmap_words_for(config.world_size),
          .job = config.job,
          .stream = config.first_stream};
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
  questions_.stop();
  detaching_told_at_ = kNever;
  return true;
}

bool WorkerMembership::leave(Instant now, const WorkerConfig& config, std::string_view cause) {
  cause_ = CauseText(cause);
  tree_join_.stop();
  straight_join_.stop();
  questions_.stop();
  detaching_told_at_ = kNever;
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
  // By then the nodes of the route have been asked, and have had a moment to answer.
  return server_heard_ + config.timing.join_refresh * 7 / 4;
}

Instant WorkerMembership::route_asked_at(const WorkerConfig& config) const {
  if (!in_job() || !has_switch(config)) return kNever;
  const Duration refresh = config.timing.join_refresh;
  const Instant silent = server_heard_ + refresh * 3 / 2;
  const bool asked = questions_.begun() >= silent;
  return std::max(asked ? questions_.begun() + refresh : silent, questions_.end(config.timing));
}

Instant WorkerMembership::next_timeout(const WorkerConfig& config) const {
  Instant next = std::min({tree_join_.next(), straight_join_.next(), leave_.next(), left_by_});
  next = std::min({next, tree_lease_end(config), silence_told_at(config), suspicion_end(config),
                   questions_.next(), route_asked_at(config), detaching_told_at_});
  if (state_ == State::kJoining) {
    next = std::min({next, started_ + config.join_timeout, refused_until()});
  }
  if (state_ == State::kJoined) next = std::min(next, server_heard_ + lease(config));
  return next;
}

// --- sending

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
  join.proof = proofs_[static_cast<std::size_t>(path)];
  if (straight) {
    join.remaining.push_back(server(config));
  } else {
    join.remaining = config.route;
  }
  (straight ? straight_join_ : tree_join_).sent(turn.now, config.timing, config.seed);
  const ControlHead head = head_of(config, PacketType::kJoin, straight);
  if (!put_join(turn.out, head, RankSet::of(config.rank), join)) return;
  turn.out.send_to(straight ? server(config) : parent(config));
  turn.count(WorkerCounter::kJoinsSent);
}

// Asks each node of the route through those below it.
void WorkerMembership::ask_route(WorkerTurn& turn) {
  const WorkerConfig& config = turn.config;
  questions_.sent(turn.now, config.timing);
  StatusMessage question;
  question.code = StatusCode::kAreYouThere;
  question.nonce = config.nonce;
  const ControlHead head = head_of(config, PacketType::kStatus, false);
  for (std::size_t hop = 0; hop < config.route.size(); ++hop) {
    question.reason = static_cast<std::uint16_t>(hop);
    if (put_status(turn.out, head, RankSet::of(config.rank), question)) {
      turn.out.send_to(parent(config));
    }
  }
}

void WorkerMembership::send_leave(WorkerTurn& turn) {
  const WorkerConfig& config = turn.config;
  leave_.sent(turn.now, config.timing, config.seed);
  const RankSet self = RankSet::of(config.rank);
  const auto put = [&](bool straight) {
    return put_leave(turn.out, head_of(config, PacketType::kLeave, straight), self,
                     Leave{config.nonce, cause_});
  };
  if (attached() && put(false)) turn.out.send_to(parent(config));
  // The tree may have died unnoticed, so the later half of the attempts goes straight as well, and
  // all of them if nothing has arrived for a lease, since packets may still get out.
  const bool straight_too = !attached() || turn.now + lease(config) / 2 >= left_by_ ||
                            turn.now >= server_heard_ + lease(config);
  if (straight_too && has_switch(config) && put(true)) turn.out.send_to(server(config));
}

// --- timers

MembershipChange WorkerMembership::handle_timeout(WorkerTurn& turn) {
  if (tree_join_.due(turn.now)) {
    suspect_tree_without_answers(turn);
    send_join(turn, Path::kTree);
  }
  if (turn.now >= route_asked_at(turn.config)) questions_.begin(turn.now, turn.config.timing);
  if (turn.now >= questions_.next()) ask_route(turn);
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
    suspected_ = convicted_ = kNever;
  }
  if (turn.now >= detaching_told_at_) tell_of_detaching(turn);
  if (turn.now >= silence_told_at(config)) {
    silence_told_ = true;
    turn.events.push_news({.kind = EventKind::kSilent, .failure = server_lost(config)});
  }
  // Nothing has come through the tree for a lease: start, or continue, detached (§2). At the server
  // the rank's tree lease ends at the same time.
  if (turn.now >= tree_lease_end(config)) change.new_path |= detach(turn).new_path;
  const Instant joined_by = std::min(started_ + config.join_timeout, refused_until());
  if (state_ == State::kJoining && turn.now >= joined_by && refused_) {
    change.failure = refused_->failure;
  } else if (state_ == State::kJoining && turn.now >= joined_by) {
    change.failure = with_hint({.code = FailureCode::kJoinTimeout,
                                .ranks = missing_,
                                .endpoint = server(config),
                                .unreachable = server_unreachable_,
                                .moves = tree_join_.in_vain() || straight_join_.in_vain(),
                                .heard = static_cast<std::uint8_t>(questions_.reach(started_))});
  }
  if (state_ == State::kJoined && turn.now >= server_heard_ + lease(config)) {
    change.failure = server_lost(config);
  }
  return change;
}

Failure WorkerMembership::with_hint(Failure failure) const {
  failure.reason = hint_.reason;
  failure.expected = hint_.said;
  return failure;
}

Failure WorkerMembership::server_lost(const WorkerConfig& config) const {
  return with_hint({.code = FailureCode::kServerLost,
                    .endpoint = server(config),
                    .unreachable = server_unreachable_,
                    .heard = static_cast<std::uint8_t>(questions_.reach(server_heard_))});
}

// --- receiving

void WorkerMembership::hear_server(WorkerTurn& turn, Path path) {
  server_heard_ = turn.now;
  hint_ = {};
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
    return MembershipChange::failed(
        {.code = FailureCode::kServerRestarted, .endpoint = server(config)});
  }
  MembershipChange change;
  const bool current =
      ack->detachments == attachment_.detachments() && ack->detached == !attached();
  if (current) {
    if (path == Path::kStraight && straight_join_.unanswered() > 1) straight_returned_ = turn.now;
    (path == Path::kTree ? tree_join_ : straight_join_).answer(turn.now, config.timing);
  }
  // A probe through the tree was answered, so the tree works again. Only the answer to the worker's
  // own probe shows this.
  if (current && path == Path::kTree && attachment_.may_return(turn.now)) {
    attach(turn);
    change.new_path = true;
  }
  // The straight answer alone does not show that the tree works, so an attached worker waits for
  // the tree's answer, or until it has detached.
  const bool settled = path == Path::kTree || !attached();
  if (state_ == State::kJoining && settled) {
    agreed_ = *ack;
    state_ = State::kJoined;
    missing_.clear();
    refused_.reset();
    change.agreed = true;
  }
  if (path == Path::kStraight) change.new_path |= judge_tree(turn).new_path;
  if (path == Path::kTree && repeat_after_join_) {
    repeat_after_join_ = false;
    change.new_path = true;
  }
  return change;
}

}  // namespace atp
