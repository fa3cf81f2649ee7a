#include "atp/sim/server_judge.h"

#include <algorithm>
#include <utility>

#include "atp/sim/parameter_bytes.h"

namespace atp::sim {
namespace {

// Everything but ECN, which may be set later, and the ranks, which differ in a repeat.
std::vector<std::uint8_t> fixed_part(const PacketView& packet) {
  std::vector<std::uint8_t> bytes(packet.bytes.begin(), packet.bytes.end());
  bytes[ATP_AT_FLAGS] = static_cast<std::uint8_t>(bytes[ATP_AT_FLAGS] & ~ATP_FLAG_ECN);
  const auto ranks = bytes.begin() + ATP_AT_BITMAP;
  std::fill(ranks, ranks + 8 * packet.header.bitmap_words, std::uint8_t{0});
  return bytes;
}

}  // namespace

void ServerJudge::end_turn(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                           const Server& server, const Outbox& out) {
  const ParsedPacket cause = parse_packet(bytes);
  if (cause.ok() && cause.view().type() == PacketType::kGradient) {
    judge_contribution(now, cause.view(), server, out);
  }
  if (cause.ok() && cause.view().type() == PacketType::kJoin) {
    judge_join(now, from, cause.view(), server, out);
  }
  proofs_.expect_receivers(from, bytes, out, [&](const std::string& what) { object(what); });
  const auto packets = out.packets();
  for (std::size_t i = 0; i < packets.size();) {
    const ParsedPacket parsed = parse_packet(out.bytes_of(packets[i]));
    const std::uint32_t offset = packets[i].offset;
    std::vector<Endpoint> to;
    for (; i < packets.size() && packets[i].offset == offset; ++i) to.push_back(packets[i].to);
    if (parsed.ok()) judge(now, from, cause.ok() ? &cause.view() : nullptr, {parsed.view(), to});
  }
  before_ = server.counters();
  note_stop(now);
  judge_lost(now, server, out);
  forget_jobs(now, server);
}

// The first table is not judged: its drops show that a packet never got as far as the second.
void ServerJudge::judge_contribution(Instant now, const PacketView& packet, const Server& server,
                                     const Outbox& out) {
  using P = ServerCounter;
  const StreamKey key{packet.job(), packet.header.stream};
  if (over_.contains(key)) return;
  for (const P drop :
       {P::kDropUnknownJob, P::kDropForeignIncarnation, P::kDropUnknownStream,
        P::kDropWrongBitmapWidth, P::kDropForeignRanks, P::kDropWrongSource, P::kDropJoining,
        P::kDropWrongValueCount, P::kDropPastSequence, P::kDropFutureSequence}) {
    if (server.counters()[drop] != before_[drop]) return;
  }
  std::uint16_t& world_size = world_size_[key];
  if (world_size == 0) {
    server.for_each_job(now, [&](const JobSummary& job) {
      const bool is_its = job.terms.key == key.first && key.second >= job.terms.first_stream &&
                          unsigned{key.second} - job.terms.first_stream < job.terms.stream_count;
      if (is_its) world_size = job.terms.world_size;
    });
  }
  if (world_size == 0) return;
  contributions_.end_gradient(packet, world_size, before_, server.counters(), out);
  for (const std::string& what : contributions_.take_objections()) object(what);
}

// A server that did not run for half a lease received no JOIN either, so it must end no lease for
// two refreshes.
void ServerJudge::note_stop(Instant now) {
  const bool has_stood = last_turn_ <= now && now - last_turn_ > config_.timing.lease / 2;
  if (has_stood) no_loss_until_ = now + 2 * config_.timing.join_refresh;
  last_turn_ = now;
}

// All ranks of a job are gone, or the server has died. The ranks may start again within the
// incarnation, which a user must not do; then earlier packets cannot be told apart from new ones.
void ServerJudge::forget_jobs(Instant now, const Server& server) {
  const std::size_t before = std::exchange(jobs_, server.job_count());
  if (jobs_ >= before) return;
  const auto is_known = [&](const StreamKey& stream) {
    bool is = false;
    server.for_each_job(now, [&](const JobSummary& summary) {
      const JobTerms& terms = summary.terms;
      is |= terms.key == stream.first && stream.second >= terms.first_stream &&
            unsigned{stream.second} - terms.first_stream < terms.stream_count;
    });
    return is;
  };
  const auto note_over = [&](const auto& streams) {
    for (const auto& [stream, _] : streams) {
      if (!is_known(stream)) over_.insert(stream);
    }
  };
  note_over(streams_);
  note_over(world_size_);  // also those without a result
  std::erase_if(holders_, [&](const auto& holder) { return !is_known(holder.first.first); });
  std::erase_if(lost_, [&](const auto& lost) { return !is_known(lost.first); });
  std::erase_if(switch_joined_, [&](const auto& joined) { return !is_known(joined.first); });
  std::erase_if(detachments_said_, [&](const auto& said) { return !is_known(said.first.first); });
}

void ServerJudge::begin_anew() {
  for (const auto& [stream, _] : streams_) over_.insert(stream);
  streams_.clear();
  contributions_.begin_anew();
  proofs_.begin_anew();
  before_ = {};
  world_size_.clear();
  straight_join_.clear();
  straight_ack_.clear();
  holders_.clear();
  switch_joined_.clear();
  detachments_said_.clear();
  lost_.clear();
  last_turn_ = Instant::max();
  no_loss_until_ = Instant::min();
  jobs_ = 0;
}

void ServerJudge::judge(Instant now, const Endpoint& from, const PacketView* cause,
                        const Message& message) {
  const PacketView& packet = message.packet;
  if (over_.contains({packet.job(), packet.header.stream})) return;
  if (packet.type() == PacketType::kJoinAck && packet.has(ATP_FLAG_DIRECT)) {
    for (const Endpoint& to : message.to) straight_ack_[to] = now;
  }
  const bool is_parameter = packet.type() == PacketType::kParameter;
  const bool is_flush = packet.type() == PacketType::kFlush;
  if (packet.type() == PacketType::kStatus) {
    contributions_.judge_status(packet);
    for (const std::string& what : contributions_.take_objections()) object(what);
  }
  if (!is_parameter && !is_flush && packet.type() != PacketType::kNack) return;
  if (is_flush) {
    for (const Endpoint& to : message.to) {
      if (is_worker(now, to)) object("a FLUSH to a worker");
    }
  }
  Stream& stream = streams_[{packet.job(), packet.header.stream}];
  const auto index = stream.indices.find(packet.header.sequence);
  if (index != stream.indices.end() && index->second != packet.header.aggregator_index) {
    object("a fragment whose index is not the one that an earlier PARAMETER gave");
  }
  if (!is_parameter) return;
  if (cause != nullptr) judge_answer(from, *cause, message);
  judge_parameter(now, stream, packet);
}

// The server recognises a worker by straight JOINs that it has answered. (When the last rank joins,
// it answers those of the others as well, however old.)
bool ServerJudge::is_worker(Instant now, const Endpoint& endpoint) const {
  const auto is_recent = [&](const auto& at) {
    return now < at->second + config_.timing.lease / 2;
  };
  const auto answered = straight_ack_.find(endpoint);
  const auto came = straight_join_.find(endpoint);
  return endpoint.port != switch_port_ && answered != straight_ack_.end() && is_recent(answered) &&
         (came == straight_join_.end() || is_recent(came));
}

// Call it before the result is noted: a complete result is repeated to the rank that asks, and
// straight to one that asks straight.
void ServerJudge::judge_answer(const Endpoint& from, const PacketView& cause,
                               const Message& message) {
  const bool is_answer = cause.type() == PacketType::kGradient &&
                         cause.identity() == message.packet.identity() &&
                         message.packet.ranks.contains(cause.ranks);
  const Stream& stream = streams_[{cause.job(), cause.header.stream}];
  if (!is_answer || !stream.results.contains(cause.header.sequence)) return;
  if (from.port == switch_port_) return;
  if (std::find(message.to.begin(), message.to.end(), from) != message.to.end()) return;
  object("a straight request is not answered straight");
}

void ServerJudge::judge_parameter(Instant now, Stream& stream, const PacketView& packet) {
  const std::uint64_t sequence = packet.header.sequence;
  const auto known = stream.results.find(sequence);
  if (known == stream.results.end()) {
    judge_first(stream, packet);
    stream.results[sequence] = {fixed_part(packet), packet.ranks, now};
    return;
  }
  Result& result = known->second;
  if (result.fixed != fixed_part(packet)) object("a PARAMETER that differs from the earlier one");
  if (now >= result.since + config_.timing.reorder_min / 2) {
    result.answered.clear();
    result.since = now;
  }
  if (result.answered.intersects(packet.ranks)) object("a PARAMETER repeated within its pause");
  result.answered |= packet.ranks;
}

void ServerJudge::judge_first(Stream& stream, const PacketView& packet) {
  const std::uint64_t sequence = packet.header.sequence;
  const std::uint32_t index = packet.header.aggregator_index;
  const bool moves = config_.rehash && packet.has(ATP_FLAG_COLLISION);
  const std::uint32_t next = next_index_of(packet);
  if (next != upper_24_bits(moves ? atp_fmix32(index + 1) : index)) {
    object(moves ? "an index that stays after a collision" : "an index that moves by itself");
  }
  if (packet.bytes[kAtPart] != 0) object("a PARAMETER of the server that has a part");
  stream.indices[sequence + config_.wmax] = next;
  // Nobody asks for fragments that were completed so long ago.
  const std::uint64_t kept = 4 * std::uint64_t{config_.wmax};
  if (sequence < kept) return;
  stream.results.erase(stream.results.begin(), stream.results.lower_bound(sequence - kept));
  stream.indices.erase(stream.indices.begin(), stream.indices.lower_bound(sequence - kept));
}

void ServerJudge::object(const std::string& what) {
  if (violations_.size() < kMaxViolations)
    violations_.push_back("not allowed by the protocol: " + what);
}

}  // namespace atp::sim
