// Membership: joining, leaving, leases, detaching and return (docs/protocol.md §2 and §5).
#include <algorithm>

#include "atp/core/worker/worker.h"

namespace atp {

void Worker::send_join(Instant now, Path path, Outbox& out) {
  const bool straight = path == Path::kStraight;
  Join join;
  join.nonce = config_.nonce;
  if (is_member()) join.server_boot_id = agreed_.server_boot_id;
  join.world_size = config_.world_size;
  join.first_stream = config_.first_stream;
  join.stream_count = config_.stream_count;
  join.max_value_count = config_.max_value_count;
  join.detached = !attached();
  join.scale_mode = config_.scale_mode;
  join.detachments = attachment_.detachments();
  if (straight) {
    join.remaining.push_back(server());
  } else {
    join.remaining = config_.route;
  }
  const ControlHead head{.type = PacketType::kJoin,
                         .flags = static_cast<std::uint8_t>(straight ? ATP_FLAG_DIRECT : 0),
                         .bitmap_words = bitmap_words_for(config_.world_size),
                         .job = config_.job,
                         .stream = config_.first_stream};
  (straight ? straight_join_ : tree_join_).sent(now, config_.timing);
  if (!put_join(out, head, RankSet::of(config_.rank), join)) return;
  out.send_to(straight ? server() : parent());
  counters_.add(WorkerCounter::kJoinsSent);
}

void Worker::send_leave(Instant now, Outbox& out) {
  leave_.sent(now, config_.timing);
  const ControlHead head{.type = PacketType::kLeave,
                         .bitmap_words = bitmap_words_for(config_.world_size),
                         .job = config_.job,
                         .stream = config_.first_stream};
  const RankSet self = RankSet::of(config_.rank);
  if (attached() && put_leave(out, head, self, Leave{config_.nonce})) out.send_to(parent());
  // The tree may have died unnoticed, so the later half of the tries goes straight as well.
  const bool straight_too = !attached() || now + lease() / 2 >= left_by_;
  if (!straight_too || !has_switch()) return;
  ControlHead straight = head;
  straight.flags = ATP_FLAG_DIRECT;
  if (put_leave(out, straight, self, Leave{config_.nonce})) out.send_to(server());
}

void Worker::check_membership(Instant now, Outbox& out) {
  if (tree_join_.due(now)) send_join(now, Path::kTree, out);
  if (straight_join_.due(now)) send_join(now, Path::kStraight, out);
  if (state_ == State::kLeaving) {
    if (now >= left_by_) {
      state_ = State::kLeft;
      leave_.stop();
      left_by_ = kNever;
      events_.push({.kind = EventKind::kLeft});
    } else if (leave_.due(now)) {
      send_leave(now, out);
    }
  }
  check_silence(now);
}

void Worker::check_silence(Instant now) {
  // Nothing through the tree for a lease's time: start detached, or go on so (§2). The server lets
  // the rank's tree lease end at the same time.
  if (now >= tree_lease_end()) detach(now);
  if (state_ == State::kJoining) {
    if (now >= started_ + config_.join_timeout) {
      fail({.code = FailureCode::kJoinTimeout,
            .ranks = missing_,
            .endpoint = server(),
            .unreachable = server_unreachable_});
    }
  }
  if (state_ == State::kJoined && now >= server_heard_ + lease()) {
    fail({.code = FailureCode::kServerLost,
          .endpoint = server(),
          .unreachable = server_unreachable_});
  }
}

Instant Worker::tree_lease_end() const {
  const bool member = state_ == State::kJoining || state_ == State::kJoined;
  if (!member || !has_switch() || !attached()) return kNever;
  return (tree_heard_ == kNever ? started_ : tree_heard_) + lease();
}

void Worker::handle_join_ack(Instant now, Path path, const PacketView& packet) {
  const std::optional<JoinAck> ack = JoinAck::read(packet.body);
  if (!ack || ack->world_size != config_.world_size || ack->value_count > config_.max_value_count ||
      ack->first_stream != config_.first_stream || ack->stream_count != config_.stream_count) {
    counters_.add(WorkerCounter::kDropBadBody);
    return;
  }
  if (ack->nonce != config_.nonce) {
    counters_.add(WorkerCounter::kDropWrongNonce);
    return;
  }
  counters_.add(WorkerCounter::kJoinsAnswered);
  if (state_ == State::kJoined && ack->server_boot_id != agreed_.server_boot_id) {
    fail({.code = FailureCode::kServerRestarted, .endpoint = server()});
    return;
  }
  const bool current =
      ack->detachments == attachment_.detachments() && ack->detached == !attached();
  if (current) (path == Path::kTree ? tree_join_ : straight_join_).answer(now, config_.timing);
  // A probe through the tree was answered: the tree lives again (F2: only by its own answer).
  if (current && path == Path::kTree && attachment_.may_return(now)) attach(now);

  // The straight answer alone does not tell whether the tree works, so an attached worker waits
  // for the tree's, or until it has detached.
  const bool settled = path == Path::kTree || !attached();
  if (state_ == State::kJoining && settled) take_agreement(now, *ack);
  if (path == Path::kTree && resend_after_join_) {
    resend_after_join_ = false;
    resend_everything();
  }
}

void Worker::take_agreement(Instant now, const JoinAck& ack) {
  agreed_ = ack;
  state_ = State::kJoined;
  missing_.clear();
  server_heard_ = now;
  const std::uint64_t packet_bytes =
      atp_packet_bytes(bitmap_words_for(config_.world_size), agreed_.value_count);
  congestion_ = CongestionWindow(config_.congestion, packet_bytes,
                                 packet_bytes * agreed_.wmax * config_.stream_count);
  if (agreed_.scale_mode == ScaleMode::kAutomatic) scales_ = ScaleHistory(agreed_.scale);
  streams_.reserve(config_.stream_count);
  for (std::uint32_t i = 0; i < config_.stream_count; ++i) {
    const auto id = static_cast<std::uint16_t>(config_.first_stream + i);
    streams_.emplace_back(Placement{agreed_.linear_aggregators}, config_.job, id, agreed_.wmax,
                          config_.max_operations);
  }
  events_.push({.kind = EventKind::kJoined});
}

void Worker::rejoin(Instant now) {
  resend_after_join_ = true;
  // One lost table is reported by many packets; one JOIN answers them all.
  if (now - tree_join_.last_sent() < config_.timing.answer_pause) return;
  tree_join_.restart(now, config_.timing);
  straight_join_.restart(now, config_.timing);
}

void Worker::detach(Instant now) {
  const bool member = state_ == State::kJoining || state_ == State::kJoined;
  if (!member || !has_switch() || !attached()) return;
  attachment_.detach(now, config_.timing);
  counters_.add(WorkerCounter::kDetachments);
  events_.push_news({.kind = EventKind::kDetached, .endpoint = parent()});
  straight_join_.restart(now, config_.timing);
  tree_join_.restart(now, config_.timing);  // from here on a probe
  resend_everything();
}

void Worker::attach(Instant now) {
  attachment_.attach();
  counters_.add(WorkerCounter::kReturns);
  events_.push_news({.kind = EventKind::kAttached, .endpoint = parent()});
  tree_join_.restart(now, config_.timing);
  straight_join_.restart(now, config_.timing);
  resend_everything();
}

void Worker::resend_everything() {
  for (Stream& stream : streams_) {
    stream.pacer.start(stream.window.base(), stream.window.next(), RepeatPacer::Extent::kAll);
  }
}

void Worker::handle_unreachable(Instant now, const Endpoint& whom, Tensors& tensors, Outbox& out) {
  counters_.add(WorkerCounter::kUnreachable);
  if (whom == server()) {
    server_unreachable_ = true;
  } else if (whom == parent()) {
    detach(now);
  }
  poll_transmit(now, tensors, out);
}

}  // namespace atp
