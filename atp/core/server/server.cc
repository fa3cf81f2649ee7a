// Dispatches each packet to its job, makes and ends jobs, and answers what belongs to none.
#include "atp/core/server/server.h"

#include <algorithm>
#include <bit>

#include "atp/base/check.h"
#include "atp/core/server/server_turn.h"
#include "atp/core/system_memory.h"
#include "atp/core/topology/proof.h"

namespace atp {

Server::Server(const ServerConfig& config)
    : config_(config), pacer_(config.timing.answer_pause, config.seed) {
  ATP_CHECK(config.wmax <= 65536 && std::has_single_bit(config.wmax));
  ATP_CHECK(config.max_value_count >= 1 && config.max_value_count <= ATP_VALUES_MAX);
  ATP_CHECK(config.float_slots >= 1);
  config_.boot_id = std::max<std::uint64_t>(config.boot_id, 1);
}

// While a job exists, a timer fires every second. A server that did not run for far longer
// (stopped, starved) has received no JOINs either, so it handles those that wait in its queue
// before it ends a lease.
ServerTurn Server::begin_turn(Instant now, Outbox& out) {
  if (now - config_.timing.lease / 2 > last_turn_) {
    for (auto& [range, entry] : jobs_) {
      entry.job.postpone_ends_of_leases(now + 2 * config_.timing.join_refresh);
    }
  }
  last_turn_ = now;
  return {{now, config_, counters_, out}, congested_};
}

void Server::handle_packet(Instant now, const Endpoint& from, const Endpoint& to,
                           std::span<const std::uint8_t> bytes, Outbox& out) {
  ServerTurn turn = begin_turn(now, out);
  turn.count(ServerCounter::kPacketsReceived);
  turn.count(ServerCounter::kBytesReceived, bytes.size());
  const ParsedPacket parsed = parse_packet(bytes);
  if (!parsed.ok()) {
    refuse_bytes(turn, from, bytes, parsed.error());
    return;
  }
  const Arrival in{from, to, parsed.view()};
  switch (in.packet.type()) {
    case PacketType::kGradient: return handle_gradient(turn, in);
    case PacketType::kJoin: return handle_join(turn, in);
    case PacketType::kLeave: return handle_leave(turn, in);
    case PacketType::kStatus: return handle_status(turn, in);
    default: return turn.count(ServerCounter::kDropUnexpectedType);
  }
}

void Server::refuse_key(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                        KeyProblem problem, Outbox& out) {
  ServerTurn turn = begin_turn(now, out);
  turn.count(ServerCounter::kPacketsReceived);
  turn.count(ServerCounter::kBytesReceived, bytes.size());
  turn.count(ServerCounter::kDropKey);
  const ParsedPacket parsed = parse_packet(bytes);
  if (!parsed.ok() || parsed.view().type() != PacketType::kJoin) return;
  const auto join = Join::read(parsed.view().body);
  if (!join) return;
  const Refusal refusal{RefusalReason::kKey, static_cast<std::uint32_t>(problem)};
  const RankSet& ranks = parsed.view().ranks;
  answer_paced(turn, {from, {}, parsed.view()}, ranks,
               StatusMessage::refused(refusal, ranks, join->nonce));
}

void Server::handle_unreachable(Instant now, const Endpoint& whom, Outbox& out) {
  static_cast<void>(whom);
  begin_turn(now, out).count(ServerCounter::kUnreachable);
}

void Server::handle_timeout(Instant now, Outbox& out) {
  ServerTurn turn = begin_turn(now, out);
  next_timeout_ = kNever;
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    const auto entry = it++;
    if (entry->second.job.next_timeout() <= now) entry->second.job.handle_timeout(turn);
    after(entry);
  }
}

// Called after every call into a job, which may have moved its timers or ended it.
void Server::after(Jobs::iterator job) {
  if (const auto failure = job->second.job.take_failure()) {
    counters_.add(ServerCounter::kJobsFailed);
    failures_.add(*failure);
  }
  if (job->second.job.finished()) {
    counters_.add(ServerCounter::kJobsEnded);
    bytes_ -= job->second.bytes;
    jobs_.erase(job);
    return;
  }
  next_timeout_ = std::min(next_timeout_, job->second.job.next_timeout());
}

Server::Jobs::iterator Server::find(const JobKey& key, std::uint16_t stream) {
  auto it = jobs_.upper_bound({key, stream});
  if (it == jobs_.begin()) return jobs_.end();
  --it;
  const JobTerms& terms = it->second.job.terms();
  const bool inside = it->first.key == key && stream - terms.first_stream < terms.stream_count;
  return inside ? it : jobs_.end();
}

// Only the first 12 bytes of an unknown version have a known meaning.
void Server::refuse_bytes(ServerTurn& turn, const Endpoint& from,
                          std::span<const std::uint8_t> bytes, ParseError error) {
  turn.count(counter_of(error));
  // A STATUS is never answered: two nodes of different versions would answer each other forever.
  if (error != ParseError::kUnknownVersion || bytes[ATP_AT_TYPE] == ATP_STATUS) return;
  StatusMessage message;
  message.code = StatusCode::kVersions;
  message.reason = versions_number(ATP_VERSION, ATP_VERSION);
  ControlHead head;
  head.version = version_of_answer(bytes[ATP_AT_VERSION]);
  head.job = {atp_load32(bytes.data() + ATP_AT_JOB), atp_load32(bytes.data() + ATP_AT_INCARNATION)};
  if (!may_answer(turn, from, bytes.size(), head.bitmap_words, message)) return;
  if (!put_status(turn.out, head, ranks_of_width(head.bitmap_words), message)) return;
  turn.count(ServerCounter::kStatusVersions);
  turn.out.send_to(from);
}

bool Server::may_answer(ServerTurn& turn, const Endpoint& to, std::size_t cause_bytes,
                        std::uint8_t bitmap_words, const StatusMessage& message,
                        AnswerPacer::To receiver) {
  const std::size_t bytes = atp_body_offset(bitmap_words) + message.bytes(bitmap_words);
  const bool may = pacer_.allow(turn.now, to, cause_bytes, bytes, message, receiver);
  if (!may) turn.count(ServerCounter::kStatusWithheld);
  return may;
}

void Server::answer_paced(ServerTurn& turn, const Arrival& in, const RankSet& ranks,
                          const StatusMessage& message, AnswerPacer::To receiver) {
  const std::uint8_t words = in.packet.header.bitmap_words;
  if (may_answer(turn, in.from, in.packet.bytes.size(), words, message, receiver)) {
    answer(turn, in, ranks, message);
  }
}

// Before all have joined, anybody may be a child.
AnswerPacer::To Server::relation_of(const Arrival& in, const Join& join) const {
  const auto job = jobs_.find({in.packet.job(), join.first_stream});
  const bool is_child = job != jobs_.end() && !job->second.job.joining() &&
                        !job->second.job.members().tree().behind(in.from).empty();
  return is_child ? AnswerPacer::To::kChild : AnswerPacer::To::kAnybody;
}

// --- JOIN ---

const Job* Server::overlapping(const JobKey& key, const Join& join) const {
  const unsigned end = join.first_stream + unsigned{join.stream_count};
  for (auto it = jobs_.lower_bound({key, 0}); it != jobs_.end() && it->first.key == key; ++it) {
    const JobTerms& terms = it->second.job.terms();
    if (terms.first_stream < end &&
        join.first_stream < terms.first_stream + unsigned{terms.stream_count}) {
      return &it->second.job;
    }
  }
  return nullptr;
}

// Why no job could grant the JOIN.
Refusal Server::objection(const Join& join, const Endpoint& to) {
  if (join.version_min > ATP_VERSION || join.version_max < ATP_VERSION) {
    return {RefusalReason::kVersion, versions_number(ATP_VERSION, ATP_VERSION),
            versions_number(join.version_min, join.version_max)};
  }
  if (const auto refusal = Refusal::if_meant_for_another(join.remaining.front(), to))
    return refusal;
  // Hops remain after the server, so the route is in the wrong order.
  if (join.remaining.size() > 1) return {RefusalReason::kRoute};
  return {};
}

Refusal Server::objection_to_new(const PacketView& packet, const Join& join) const {
  if (const Job* other = overlapping(packet.job(), join)) {
    return {RefusalReason::kStreams,
            streams_number(other->terms().first_stream, other->terms().stream_count),
            streams_number(join.first_stream, join.stream_count), other->members().known()};
  }
  if (join.stream_count > config_.max_streams) {
    return {RefusalReason::kStreams, config_.max_streams, join.stream_count};
  }
  if (packet.header.bitmap_words != bitmap_words_for(join.world_size)) {
    return {RefusalReason::kWorldSize};
  }
  if (join.number_format == NumberFormat::kBlocksInt16 && join.world_size > kMaxRanksOfInt16) {
    return {RefusalReason::kTooManyRanks, kMaxRanksOfInt16, join.world_size};
  }
  const Rank rank = packet.ranks.lowest();
  if (rank >= join.world_size) return {RefusalReason::kRank, join.world_size, rank};
  if (draining_ && !knows(packet.job())) return {RefusalReason::kDraining};
  if (jobs_.size() >= config_.max_jobs) return {RefusalReason::kTooManyJobs, config_.max_jobs};
  const std::size_t left = config_.memory_limit_bytes - bytes_;
  const std::size_t needed = Job::bytes_needed(packet.job(), join, config_);
  if (needed > left) return memory_refusal(left, needed);
  if (const Refusal refusal = objection_by_quota(packet.job(), needed)) return refusal;
  return system_gives(needed) ? Refusal{} : memory_refusal(0, needed);
}

// A tenant's jobs share its quota.
Refusal Server::objection_by_quota(const JobKey& job, std::size_t bytes) const {
  const Quota quota = quota_of(config_.quotas, job.tenant);
  if (quota == Quota{}) return {};
  QuotaCheck check(quota, job);
  for (const auto& [range, entry] : jobs_) check.note(range.key, entry.bytes);
  return check.refusal(bytes);
}

// A rank that was acknowledged before is a member of a job that had begun. This job has not begun,
// so the server has lost the rank's own: it restarted, or all leases had ended. That job's sums are
// gone, and if a rank died meanwhile, the joining would never complete.
std::optional<Rejection> Server::forgotten(const PacketView& packet, const Join& join) const {
  if (join.server_boot_id == 0) return std::nullopt;
  const bool other_life = join.server_boot_id != config_.boot_id;
  const auto job = jobs_.find({packet.job(), join.first_stream});
  if (!other_life && job != jobs_.end() && !job->second.job.joining()) return std::nullopt;
  Rejection rejection{ServerCounter::kDropForgotten, {}};
  rejection.answer.code = other_life ? StatusCode::kServerRestarted : StatusCode::kLeaseEnded;
  rejection.answer.about = packet.ranks;
  rejection.answer.nonce = join.nonce;
  return rejection;
}

std::optional<Rejection> Server::rejection_of(const Arrival& in, const Join& join) const {
  const PacketView& packet = in.packet;
  const auto refused = [&](const Refusal& refusal) {
    return Rejection{ServerCounter::kDropRefused,
                     StatusMessage::refused(refusal, packet.ranks, join.nonce)};
  };
  if (const Refusal refusal = objection(join, in.to)) return refused(refusal);
  if (const auto rejection = forgotten(packet, join)) return rejection;
  const auto known = jobs_.find({packet.job(), join.first_stream});
  if (known != jobs_.end()) return known->second.job.rejection_of(in, join);
  if (const Refusal refusal = objection_to_new(packet, join)) return refused(refusal);
  return std::nullopt;
}

Server::Jobs::iterator Server::find_or_make(ServerTurn& turn, const PacketView& packet,
                                            const Join& join) {
  const RangeKey range{packet.job(), join.first_stream};
  const auto known = jobs_.find(range);
  if (known != jobs_.end()) return known;
  turn.count(ServerCounter::kJobsMade);
  const std::size_t bytes = Job::bytes_needed(packet.job(), join, config_);
  bytes_ += bytes;
  return jobs_.emplace(range, Entry{Job(packet.job(), join, config_, turn.now), bytes}).first;
}

void Server::handle_join(ServerTurn& turn, const Arrival& in) {
  turn.count(ServerCounter::kJoins);
  const auto join = Join::read(in.packet.body);
  if (!join) return turn.count(ServerCounter::kDropBadBody);
  if (in.packet.ranks.size() != 1) return turn.count(ServerCounter::kDropBadRank);
  // Without a right proof it changes nothing here, and gets a smaller answer: nothing is sent to an
  // address because of packets that only claim to come from there.
  const std::uint64_t proof = proof_of(config_.secret, in.packet.job(), in.from);
  if (join->proof != proof) {
    turn.count(ServerCounter::kJoinsUnproven);
    return answer(turn, in, in.packet.ranks,
                  StatusMessage::prove(proof, in.packet.ranks, join->nonce));
  }
  if (const auto rejection = rejection_of(in, *join)) {
    turn.count(rejection->drop);
    answer_paced(turn, in, in.packet.ranks, rejection->answer, relation_of(in, *join));
    tell_others(turn, in.packet, *join, rejection->answer);
    return;
  }
  const auto job = find_or_make(turn, in.packet, *join);
  job->second.job.handle_join(turn, in, *join);
  if (job->second.job.joining()) tell_of_other_incarnations(turn, job);
  after(job);
}

// The ranks with which this one disagrees would otherwise wait for it until their time-out.
void Server::tell_others(ServerTurn& turn, const PacketView& packet, const Join& join,
                         const StatusMessage& answer) {
  const Refusal refusal = answer.refusal();
  const Job* theirs = overlapping(packet.job(), join);
  const bool concerns = answer.code == StatusCode::kRefused && !refusal.holders.empty();
  if (!concerns || theirs == nullptr) return;
  const auto job = jobs_.find({packet.job(), theirs->terms().first_stream});
  job->second.job.tell_of_refused(turn, refusal, packet.ranks);
}

// Tells two incarnations of a job that wait for each other's ranks about one another. The other may
// have just died, so only its recent JOINs count.
void Server::tell_of_other_incarnations(ServerTurn& turn, Jobs::iterator job) {
  Job& own = job->second.job;
  const JobKey key = job->first.key;
  const Duration lately = 2 * config_.timing.join_refresh;
  for (auto it = jobs_.lower_bound({{key.job, 0, key.tenant}, 0}); it != jobs_.end(); ++it) {
    if (!same_job(it->first.key, key)) return;
    Job& other = it->second.job;
    if (it->first.key == key || !other.joining()) continue;
    if (it->first.first_stream != job->first.first_stream) continue;
    const RankSet there =
        other.members().heard_since(turn.now, lately, config_.timing.lease) - own.members().known();
    if (there.empty()) continue;
    own.tell_of_refused(
        turn, {RefusalReason::kIncarnation, key.incarnation, it->first.key.incarnation}, there);
  }
}

// --- LEAVE ---

void Server::handle_leave(ServerTurn& turn, const Arrival& in) {
  turn.count(ServerCounter::kLeaves);
  const auto leave = Leave::read(in.packet.body);
  if (!leave) return turn.count(ServerCounter::kDropBadBody);
  if (in.packet.ranks.size() != 1) return turn.count(ServerCounter::kDropBadRank);
  const auto job = find(in.packet.job(), in.packet.header.stream);
  if (job != jobs_.end() && job->second.job.handle_leave(turn, in, *leave)) return after(job);
  // A rank that is no longer a member has left: the last acknowledgement was lost, and its job may
  // be over.
  answer_paced(turn, in, in.packet.ranks, left_status(in.packet, *leave));
}

// --- STATUS ---

void Server::handle_status(ServerTurn& turn, const Arrival& in) {
  if (const auto here = StatusMessage::answer_to(in.packet)) {
    turn.count(ServerCounter::kQuestions);
    // Ranks that lose their tree ask at the same time, and those behind a switch have one address.
    const auto asker = find(in.packet.job(), in.packet.header.stream);
    if (asker != jobs_.end() && asker->second.job.members().is_from(in)) {
      return answer(turn, in, in.packet.ranks, *here);
    }
    return answer_paced(turn, in, in.packet.ranks, *here);
  }
  const auto status = StatusMessage::read(in.packet);
  if (!status || status->code != StatusCode::kOperation) {
    return turn.count(ServerCounter::kDropUnexpectedType);
  }
  const auto job = find(in.packet.job(), in.packet.header.stream);
  if (job == jobs_.end()) return turn.count(unknown_counter(in.packet));
  job->second.job.handle_description(turn, in, status->cause);
  after(job);
}

// --- GRADIENT ---

ServerCounter Server::unknown_counter(const PacketView& packet) const {
  const auto next = jobs_.lower_bound({packet.job(), 0});
  if (next != jobs_.end() && next->first.key == packet.job()) {
    return ServerCounter::kDropUnknownStream;
  }
  const auto first = jobs_.lower_bound({{packet.header.job, 0, packet.header.tenant}, 0});
  const bool known = first != jobs_.end() && same_job(first->first.key, packet.job());
  return known ? ServerCounter::kDropForeignIncarnation : ServerCounter::kDropUnknownJob;
}

void Server::handle_gradient(ServerTurn& turn, const Arrival& in) {
  turn.count(ServerCounter::kGradientsReceived);
  turn.count(ServerCounter::kGradientBytesReceived, in.packet.bytes.size());
  const auto job = find(in.packet.job(), in.packet.header.stream);
  if (job == jobs_.end()) {
    turn.count(unknown_counter(in.packet));
    answer_unknown_job(turn, in, in.packet.ranks);
    return;
  }
  answer_unknown_job(turn, in, job->second.job.handle_gradient(turn, in));
  after(job);
}

void Server::answer_unknown_job(ServerTurn& turn, const Arrival& in, const RankSet& ranks) {
  if (ranks.empty()) return;
  StatusMessage message;
  message.code = StatusCode::kUnknownJob;
  message.about = ranks;
  answer_paced(turn, in, ranks, message);
}

}  // namespace atp
