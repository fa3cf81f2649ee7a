// How ranks join, and which JOINs are rejected (docs/inside/protocol §2).
#include <algorithm>
#include <new>

#include "atp/core/server/job.h"

namespace atp {

Refusal Job::objection(const Arrival& in, const Join& join) const {
  const PacketView& packet = in.packet;
  const auto differs = [&](RefusalReason reason, std::uint32_t expected, std::uint32_t found) {
    return Refusal{reason, expected, found, members_.known()};
  };
  const Rank rank = packet.ranks.lowest();
  if (join.world_size != terms_.world_size || packet.header.bitmap_words != terms_.bitmap_words()) {
    return differs(RefusalReason::kWorldSize, terms_.world_size, join.world_size);
  }
  if (rank >= terms_.world_size) return {RefusalReason::kRank, terms_.world_size, rank};
  if (join.first_stream != terms_.first_stream || join.stream_count != terms_.stream_count) {
    return differs(RefusalReason::kStreams,
                   streams_number(terms_.first_stream, terms_.stream_count),
                   streams_number(join.first_stream, join.stream_count));
  }
  if (join.number_format != terms_.number_format) {
    return differs(RefusalReason::kNumberFormat, static_cast<std::uint32_t>(terms_.number_format),
                   static_cast<std::uint32_t>(join.number_format));
  }
  const RankSet others = members_.others_at(in.from, rank);
  // A switch has recorded itself, and speaks for all behind it.
  if (join.recorded.empty() && !others.empty()) {
    return {.reason = RefusalReason::kSocket, .holders = others};
  }
  if (!joining() && join.max_value_count < terms_.value_count) {
    return differs(RefusalReason::kValueCount, terms_.value_count, join.max_value_count);
  }
  return {};
}

std::optional<Rejection> Job::rejection_of(const Arrival& in, const Join& join) const {
  const PacketView& packet = in.packet;
  const Rank rank = packet.ranks.lowest();
  if (const Refusal refusal = objection(in, join)) {
    return Rejection{ServerCounter::kDropRefused,
                     StatusMessage::refused(refusal, packet.ranks, join.nonce)};
  }
  StatusMessage answer;
  answer.about = packet.ranks;
  answer.nonce = join.nonce;
  if (members_.gone().contains(rank)) {
    answer.code = members_.left().contains(rank) ? StatusCode::kLeft : StatusCode::kLeaseEnded;
    return Rejection{ServerCounter::kDropRankGone, answer};
  }
  if (const auto holder = members_.holder(rank, join.nonce)) {
    answer.code = StatusCode::kRankTaken;
    answer.add_endpoint(*holder);
    return Rejection{ServerCounter::kDropRankTaken, answer};
  }
  return std::nullopt;
}

void Job::handle_join(ServerTurn& turn, const Arrival& in, const Join& join) {
  const Rank rank = in.packet.ranks.lowest();
  const std::uint8_t path_flag = in.packet.header.flags & ATP_FLAG_DIRECT;
  const Instant lease_end = turn.now + turn.config.timing.lease;
  const bool detached_news = path_flag == ATP_FLAG_DIRECT
                                 ? members_.join_straight(rank, in.from, join, turn.now, lease_end)
                                 : members_.join_through_tree(rank, in.from, join, lease_end);
  leases_at_ = std::min(leases_at_, lease_end);
  if (joining()) {
    terms_.value_count = std::min(terms_.value_count, join.max_value_count);
    complete_if_all_in(turn);
    if (joining() && !finished_) answer_missing(turn, in.from, rank, path_flag);
    return;
  }
  acknowledge(turn, in.from, rank, {join.detachments, join.detached}, path_flag);
  if (!members_.lost().empty()) answer_lost(turn, in.from, rank, path_flag);
  if (detached_news) announce_detached(turn);
}

void Job::answer_missing(ServerTurn& turn, const Endpoint& from, Rank rank, std::uint8_t flags) {
  // Each path has its own pause: the straight JOIN is faster, and if it used up the answer of the
  // other one, the rank would take its tree for dead.
  const bool straight = (flags & ATP_FLAG_DIRECT) != 0;
  Instant& answered = members_.record(rank).missing_answered[straight ? 1 : 0];
  const Duration pause = turn.config.timing.waiting_for;
  if (turn.now < made_at_ + pause || turn.now < answered + pause) return;
  answered = turn.now;
  Downlink down = downlink(turn);
  FragmentName name;
  name.stream = terms_.first_stream;
  down.status_to(from, flags, name, down.waiting_for(members_.all() - joined(turn)),
                 RankSet::of(rank));
}

void Job::tell_of_refused(ServerTurn& turn, const Refusal& refusal, const RankSet& about) {
  const Duration pause = turn.config.timing.waiting_for;
  if (!joining() || !members_.all().intersects(about) || turn.now < refused_told_ + pause) return;
  refused_told_ = turn.now;
  FragmentName name;
  name.stream = terms_.first_stream;
  Downlink down = downlink(turn);
  down.status(name, StatusMessage::refused(refusal, about & members_.all(), 0), members_.known());
}

// The rank may have missed the announcement when the lease ended.
void Job::answer_lost(ServerTurn& turn, const Endpoint& from, Rank rank, std::uint8_t flags) {
  Downlink down = downlink(turn);
  const Gone all = gone(down);
  down.status_to(from, flags, all.name, all.message, RankSet::of(rank));
}

void Job::complete_if_all_in(ServerTurn& turn) {
  if (!joining() || joined(turn) != members_.all()) return;
  // The system would have given the memory when the job began, but others have taken it since. So
  // the job ends, and its ranks' next JOINs are refused.
  try {
    aggregation_.emplace(terms_, turn.config);
  } catch (const std::bad_alloc&) {
    finished_ = true;
    return;
  }
  joining_at_ = kNever;
  acknowledge_all(turn);
  detached_at_ = turn.now + turn.config.timing.join_refresh;
}

void Job::acknowledge(ServerTurn& turn, const Endpoint& to, Rank rank, const Detaching& detaching,
                      std::uint8_t flags) {
  JoinAck ack;
  ack.nonce = members_.record(rank).nonce;
  ack.server_boot_id = turn.config.boot_id;
  ack.scale = terms_.scale;
  ack.detachments = detaching.detachments;
  ack.detached = detaching.detached;
  ack.lease_ms = static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(turn.config.timing.lease).count());
  ack.wmax = terms_.wmax;
  ack.linear_aggregators = turn.config.placement.linear_aggregators;
  ack.value_count = terms_.value_count;
  ack.world_size = terms_.world_size;
  ack.first_stream = terms_.first_stream;
  ack.stream_count = terms_.stream_count;
  ack.number_format = terms_.number_format;

  ControlHead head;
  head.type = PacketType::kJoinAck;
  head.flags = flags;
  head.bitmap_words = terms_.bitmap_words();
  head.job = terms_.key;
  head.stream = terms_.first_stream;
  if (!put_join_ack(turn.out, head, RankSet::of(rank), ack)) return;
  turn.count(ServerCounter::kJoinAcks);
  turn.out.send_to(to);
}

void Job::acknowledge_all(ServerTurn& turn) {
  const Membership& tree = members_.tree();
  const Membership& straight = members_.straight();
  tree.known().for_each([&](Rank rank) {
    acknowledge(turn, tree.member(rank).child, rank, members_.record(rank).through_tree, 0);
  });
  straight.known().for_each([&](Rank rank) {
    acknowledge(turn, straight.member(rank).child, rank, members_.record(rank).straight,
                ATP_FLAG_DIRECT);
  });
}

}  // namespace atp
