#include "atp/core/server/job.h"

#include <algorithm>

namespace atp {
namespace {

constexpr double kFirstAutomaticScale = 0x1p20;

JobTerms terms_of(const JobKey& key, const Join& first, const ServerConfig& config) {
  JobTerms terms;
  terms.key = key;
  terms.first_stream = first.first_stream;
  terms.stream_count = first.stream_count;
  terms.world_size = first.world_size;
  terms.value_count = std::min(first.max_value_count, config.max_value_count);
  terms.wmax = config.wmax;
  terms.scale_mode = first.scale_mode;
  terms.scale = first.scale_mode == ScaleMode::kFixed ? config.scale : kFirstAutomaticScale;
  return terms;
}

}  // namespace

Job::Job(const JobKey& key, const Join& first, const ServerConfig& config, Instant now)
    : terms_(terms_of(key, first, config)),
      members_(first.world_size),
      made_at_(now),
      joining_at_(now + config.timing.join_refresh) {}

std::size_t Job::bytes_needed(const JobKey& key, const Join& first, const ServerConfig& config) {
  return sizeof(Job) + JobMembers::bytes_needed(first.world_size) +
         Aggregation::bytes_needed(terms_of(key, first, config), config);
}

Instant Job::next_timeout() const {
  const Instant own = std::min({leases_at_, joining_at_, detached_at_, gone_at_});
  return aggregation_ ? std::min(own, aggregation_->next_timeout()) : own;
}

RankSet Job::joined(const Turn& turn) const {
  return members_.joined(turn.now, turn.config.timing.lease);
}

void Job::handle_timeout(Turn& turn) {
  const Timing& timing = turn.config.timing;
  if (leases_at_ <= turn.now) end_leases(turn);
  if (joining_at_ <= turn.now) {
    joining_at_ = turn.now + timing.join_refresh;
    complete_if_all_in(turn);
  }
  if (!aggregation_) return;
  Downlink down = downlink(turn);
  if (aggregation_->next_timeout() <= turn.now) aggregation_->handle_timeout(down);
  if (detached_at_ <= turn.now) say_detached(turn);
  if (gone_at_ <= turn.now) {
    gone_at_ = turn.now + timing.waiting_for;
    if (aggregation_->lacks(members_.gone())) say_gone(turn);
  }
}

// --- joining ---

Refusal Job::objection(const PacketView& packet, const Join& join) const {
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
  if (join.scale_mode != terms_.scale_mode) {
    return differs(RefusalReason::kScaleMode, static_cast<std::uint32_t>(terms_.scale_mode),
                   static_cast<std::uint32_t>(join.scale_mode));
  }
  if (!joining() && join.max_value_count < terms_.value_count) {
    return differs(RefusalReason::kValueCount, terms_.value_count, join.max_value_count);
  }
  return {};
}

std::optional<TurnedAway> Job::turned_away(const PacketView& packet, const Join& join) const {
  const Rank rank = packet.ranks.lowest();
  if (const Refusal refusal = objection(packet, join)) {
    return TurnedAway{ServerCounter::kDropRefused,
                      StatusMessage::refused(refusal, packet.ranks, join.nonce)};
  }
  StatusMessage answer;
  answer.about = packet.ranks;
  answer.nonce = join.nonce;
  if (members_.gone().contains(rank)) {
    answer.code = members_.left().contains(rank) ? StatusCode::kLeft : StatusCode::kLeaseEnded;
    return TurnedAway{ServerCounter::kDropRankGone, answer};
  }
  if (const auto holder = members_.holder(rank, join.nonce)) {
    answer.code = StatusCode::kRankTaken;
    answer.add_endpoint(*holder);
    return TurnedAway{ServerCounter::kDropRankTaken, answer};
  }
  return std::nullopt;
}

void Job::handle_join(Turn& turn, const Endpoint& from, const PacketView& packet,
                      const Join& join) {
  const Rank rank = packet.ranks.lowest();
  const std::uint8_t way = packet.header.flags & ATP_FLAG_DIRECT;
  const Instant lease_end = turn.now + turn.config.timing.lease;
  const bool detached_news = way == ATP_FLAG_DIRECT
                                 ? members_.join_straight(rank, from, join, turn.now, lease_end)
                                 : members_.join_through_tree(rank, from, join, lease_end);
  leases_at_ = std::min(leases_at_, lease_end);
  if (joining()) {
    terms_.value_count = std::min(terms_.value_count, join.max_value_count);
    complete_if_all_in(turn);
    if (joining()) tell_who_is_missing(turn, from, rank, way);
    return;
  }
  acknowledge(turn, from, rank, {join.detachments, join.detached}, way);
  if (!members_.lost().empty()) tell_who_is_lost(turn, from, rank, way);
  if (detached_news) say_detached(turn);
}

void Job::tell_who_is_missing(Turn& turn, const Endpoint& from, Rank rank, std::uint8_t flags) {
  // Each way has its own pause: the straight JOIN is the faster one, and if it took the answer
  // from the other, the rank would believe that its tree is dead.
  const bool straight = (flags & ATP_FLAG_DIRECT) != 0;
  Instant& told = members_.record(rank).told_who_is_missing[straight ? 1 : 0];
  const Duration pause = turn.config.timing.waiting_for;
  if (turn.now < made_at_ + pause || turn.now < told + pause) return;
  told = turn.now;
  Downlink down = downlink(turn);
  FragmentName name;
  name.stream = terms_.first_stream;
  down.status_to(from, flags, name, down.waiting_for(members_.all() - joined(turn)),
                 RankSet::of(rank));
}

// It may have missed what all were told when the lease ended.
void Job::tell_who_is_lost(Turn& turn, const Endpoint& from, Rank rank, std::uint8_t flags) {
  FragmentName name;
  name.stream = terms_.first_stream;
  StatusMessage message;
  message.code = StatusCode::kLeaseEnded;
  message.about = members_.lost();
  downlink(turn).status_to(from, flags, name, message, RankSet::of(rank));
}

void Job::complete_if_all_in(Turn& turn) {
  if (!joining() || joined(turn) != members_.all()) return;
  joining_at_ = kNever;
  aggregation_.emplace(terms_, turn.config);
  acknowledge_all(turn);
  detached_at_ = turn.now + turn.config.timing.join_refresh;
}

void Job::acknowledge(Turn& turn, const Endpoint& to, Rank rank, const Detaching& detaching,
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
  ack.value_count = terms_.value_count;
  ack.world_size = terms_.world_size;
  ack.first_stream = terms_.first_stream;
  ack.stream_count = terms_.stream_count;
  ack.scale_mode = terms_.scale_mode;

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

void Job::acknowledge_all(Turn& turn) {
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

// --- leases, leaving, detaching ---

void Job::end_leases(Turn& turn) {
  const RankSet ended = members_.expire(turn.now);
  leases_at_ = members_.next_expiry();
  if (joining()) {
    finished_ = members_.known().empty();
    return;
  }
  if (!ended.empty()) {
    members_.lose(ended);
    turn.count(ServerCounter::kRanksLost, ended.size());
    say_gone(turn);
    gone_at_ = std::min(gone_at_, turn.now + turn.config.timing.waiting_for);
  }
  finish_if_all_gone();
}

StatusMessage left_status(const PacketView& packet, const Leave& leave) {
  StatusMessage message;
  message.code = StatusCode::kLeft;
  message.about = packet.ranks;
  message.nonce = leave.nonce;
  return message;
}

void Job::handle_leave(Turn& turn, const Endpoint& from, const PacketView& packet,
                       const Leave& leave) {
  if (packet.header.bitmap_words != terms_.bitmap_words()) {
    turn.count(ServerCounter::kDropWrongBitmapWidth);
    return;
  }
  const Rank rank = packet.ranks.lowest();
  if (!members_.all().contains(rank)) {
    turn.count(ServerCounter::kDropForeignRanks);
    return;
  }
  const bool member = members_.known().contains(rank);
  if (member && members_.source_of(from, packet.ranks) == Source::kForeign) {
    turn.count(ServerCounter::kDropWrongSource);
    return;
  }
  if (member && members_.record(rank).nonce != leave.nonce) {
    turn.count(ServerCounter::kDropWrongNonce);
    return;
  }
  reply(turn, from, packet, packet.ranks, left_status(packet, leave));
  if (!member || members_.left().contains(rank)) return;
  if (joining()) {
    members_.forget(rank);
    finished_ = members_.known().empty();
    return;
  }
  members_.leave(rank);
  if (aggregation_->lacks(RankSet::of(rank))) say_gone(turn);
  gone_at_ = std::min(gone_at_, turn.now + turn.config.timing.waiting_for);
  finish_if_all_gone();
}

void Job::finish_if_all_gone() { finished_ = members_.gone() == members_.all(); }

void Job::say_gone(Turn& turn) {
  told_gone_ = turn.now;
  Downlink down = downlink(turn);
  FragmentName name;
  name.stream = terms_.first_stream;
  StatusMessage message;
  message.code = StatusCode::kLeaseEnded;
  message.about = members_.lost();
  if (!message.about.empty()) down.status(name, message, down.present());
  message.code = StatusCode::kLeft;
  message.about = members_.left();
  if (!message.about.empty()) down.status(name, message, down.present());
}

void Job::say_detached(Turn& turn) {
  detached_at_ = turn.now + turn.config.timing.join_refresh;
  StatusMessage message;
  message.code = StatusCode::kDetached;
  Downlink down = downlink(turn);
  std::size_t count = 0;
  const auto send = [&] {
    if (count > 0) down.status_to_switches(message);
    message.about.clear();
    count = 0;
  };
  members_.detached().for_each([&](Rank rank) {
    message.about.insert(rank);
    message.numbers[count++] = members_.record(rank).detachments;
    if (count == StatusMessage::kMaxNumbers) send();
  });
  send();
}

// --- gradients ---

ServerCounter Job::fault_of(const PacketView& packet, Source source) const {
  const atp_header& h = packet.header;
  if (h.bitmap_words != terms_.bitmap_words()) return ServerCounter::kDropWrongBitmapWidth;
  if (packet.ranks.empty() || !members_.all().contains(packet.ranks)) {
    return ServerCounter::kDropForeignRanks;
  }
  if (source == Source::kForeign) return ServerCounter::kDropWrongSource;
  if (joining()) return ServerCounter::kDropJoining;
  if (h.value_count != terms_.value_count) return ServerCounter::kDropWrongValueCount;
  return ServerCounter::kCount;
}

RankSet Job::handle_gradient(Turn& turn, const Endpoint& from, const PacketView& packet) {
  const Source source = members_.source_of(from, packet.ranks);
  const ServerCounter fault = fault_of(packet, source);
  if (fault != ServerCounter::kCount) {
    turn.count(fault);
    if (fault != ServerCounter::kDropWrongSource) return {};
    return packet.ranks - members_.tree().behind(from);
  }
  Downlink down = downlink(turn);
  const bool hopeless = aggregation_->handle_gradient(down, from, packet, source);
  if (hopeless && told_gone_ + turn.config.timing.answer_pause <= turn.now) say_gone(turn);
  return {};
}

JobSummary Job::summary(Instant now) const {
  JobSummary summary;
  summary.terms = terms_;
  summary.joining = joining();
  // A rank of which only an unmarked straight JOIN came counts as in to a reader.
  summary.joined = members_.joined(now, Duration::zero());
  if (joining()) summary.missing = members_.all() - summary.joined;
  if (!joining()) summary.detached = members_.detached();
  summary.lost = members_.lost();
  summary.left = members_.left();
  return summary;
}

}  // namespace atp
