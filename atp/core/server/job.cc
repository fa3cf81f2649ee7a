#include "atp/core/server/job.h"

#include <algorithm>

namespace atp {
namespace {

JobTerms terms_of(const JobKey& key, const Join& first, const ServerConfig& config) {
  JobTerms terms;
  terms.key = key;
  terms.first_stream = first.first_stream;
  terms.stream_count = first.stream_count;
  terms.world_size = first.world_size;
  terms.value_count = std::min(first.max_value_count, config.max_value_count);
  terms.wmax = config.wmax;
  terms.number_format = first.number_format;
  terms.scale = config.scale;
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

RankSet Job::joined(const ServerTurn& turn) const {
  return members_.joined(turn.now, turn.config.timing.lease);
}

void Job::handle_timeout(ServerTurn& turn) {
  const Timing& timing = turn.config.timing;
  if (leases_at_ <= turn.now) end_leases(turn);
  if (joining_at_ <= turn.now) {
    joining_at_ = turn.now + timing.join_refresh;
    complete_if_all_in(turn);
  }
  if (!aggregation_) return;
  Downlink down = downlink(turn);
  if (aggregation_->next_timeout() <= turn.now) aggregation_->handle_timeout(down);
  if (detached_at_ <= turn.now) announce_detached(turn);
  if (gone_at_ <= turn.now) {
    gone_at_ = turn.now + timing.waiting_for;
    if (aggregation_->lacks(members_.gone())) announce_gone(turn);
  }
}

ServerCounter Job::fault_of(const PacketView& packet, Source source) const {
  const atp_header& h = packet.header;
  if (h.bitmap_words != terms_.bitmap_words()) return ServerCounter::kDropWrongBitmapWidth;
  if (packet.ranks.empty() || !members_.all().contains(packet.ranks)) {
    return ServerCounter::kDropForeignRanks;
  }
  if (source == Source::kForeign) return ServerCounter::kDropWrongSource;
  if (joining()) return ServerCounter::kDropJoining;
  if (h.value_count > atp_most_values(h.kind, terms_.value_count)) {
    return ServerCounter::kDropWrongValueCount;
  }
  return ServerCounter::kCount;
}

RankSet Job::handle_gradient(ServerTurn& turn, const Arrival& in) {
  const Source source = members_.source_of(in.from, in.packet.ranks);
  const ServerCounter fault = fault_of(in.packet, source);
  if (fault != ServerCounter::kCount) {
    turn.count(fault);
    if (fault != ServerCounter::kDropWrongSource) return {};
    return in.packet.ranks - members_.tree().behind(in.from);
  }
  Downlink down = downlink(turn);
  const bool hopeless = aggregation_->handle_gradient(down, in, source);
  if (hopeless && gone_announced_ + turn.config.timing.answer_pause <= turn.now)
    announce_gone(turn);
  return {};
}

void Job::handle_description(ServerTurn& turn, const Arrival& in, const CauseText& text) {
  const Source source = members_.source_of(in.from, in.packet.ranks);
  ServerCounter fault = fault_of(in.packet, source);
  if (fault == ServerCounter::kCount && source != Source::kStraight) {
    fault = ServerCounter::kDropWrongSource;
  }
  if (fault != ServerCounter::kCount) return turn.count(fault);
  aggregation_->describe(turn, in.packet.header, text);
}

JobSummary Job::summary(Instant now) const {
  JobSummary summary;
  summary.terms = terms_;
  summary.joining = joining();
  // For a display, a rank of which only an unmarked straight JOIN has arrived counts as joined.
  summary.joined = members_.joined(now, Duration::zero());
  if (joining()) summary.missing = members_.all() - summary.joined;
  if (!joining()) summary.detached = members_.detached();
  summary.lost = members_.lost();
  summary.left = members_.left();
  summary.members = &members_;
  summary.has_switches = members_.height() > 0;
  if (!aggregation_) return summary;
  summary.progress = aggregation_->progress();
  summary.lateness = aggregation_->lateness().of_ranks();
  constexpr Duration kLate = std::chrono::milliseconds(250);
  constexpr Duration kStuck = std::chrono::seconds(1);
  if (const auto late = aggregation_->waited_for(now, kLate)) summary.waited_for = late->ranks;
  summary.stuck = aggregation_->waited_for(now, kStuck);
  if (!summary.stuck) return summary;
  summary.stuck_operation = aggregation_->description_of(summary.stuck->operation);
  return summary;
}

}  // namespace atp
