#include "atp/core/dataplane/answers.h"

namespace atp {
namespace {

void send(SwitchState& state, Instant now, const Endpoint& to, const ControlHead& head,
          const RankSet& ranks, const StatusMessage& status, Outbox& out) {
  if (!state.pacer.allow(now, to, head.job, status)) {
    state.counters.add(SwitchCounter::kStatusesWithheld);
    return;
  }
  if (!put_status(out, head, ranks, status)) return;
  out.send_to(to);
  state.counters.add(SwitchCounter::kStatusesSent);
}

ControlHead head_to(const PacketView& packet, std::uint16_t stream) {
  return {.bitmap_words = packet.header.bitmap_words, .job = packet.job(), .stream = stream};
}

}  // namespace

void answer_unknown(SwitchState& state, const Arrival& in, const RankSet& ranks) {
  StatusMessage status;
  status.code = StatusCode::kUnknownJob;
  status.about = ranks;
  send(state, in.now, in.from, head_to(in.packet, in.packet.header.stream), ranks, status, in.out);
}

void answer_refused(SwitchState& state, const Arrival& in, const Join& join,
                    const Refusal& refusal) {
  const StatusMessage status = StatusMessage::refused(refusal, in.packet.ranks, join.nonce);
  send(state, in.now, in.from, head_to(in.packet, join.first_stream), in.packet.ranks, status,
       in.out);
}

void answer_rank_taken(SwitchState& state, const Arrival& in, const Join& join,
                       const Endpoint& holder) {
  StatusMessage status;
  status.code = StatusCode::kRankTaken;
  status.nonce = join.nonce;
  status.about = in.packet.ranks;
  status.add_endpoint(holder);
  send(state, in.now, in.from, head_to(in.packet, join.first_stream), in.packet.ranks, status,
       in.out);
}

void answer_versions(SwitchState& state, Instant now, const Endpoint& from,
                     std::span<const std::uint8_t> bytes, Outbox& out) {
  // Two nodes without a common version must not answer each other's answers for ever.
  if (bytes[ATP_AT_TYPE] == ATP_STATUS) return;
  const std::uint8_t words = bytes[ATP_AT_BITMAP_WORDS];
  ControlHead head;
  head.bitmap_words = words >= 1 && words <= ATP_BITMAP_WORDS_MAX ? words : std::uint8_t{1};
  head.job = {atp_load32(&bytes[ATP_AT_JOB]), atp_load32(&bytes[ATP_AT_INCARNATION])};
  StatusMessage status;
  status.code = StatusCode::kVersions;
  status.reason = versions_number(ATP_VERSION_1, ATP_VERSION_1);
  // Its bitmap cannot be read, so whoever gets this is meant.
  send(state, now, from, head, ranks_of_width(head.bitmap_words), status, out);
}

}  // namespace atp
