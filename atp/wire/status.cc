#include "atp/wire/status.h"

#include <algorithm>
#include <limits>

#include "atp/base/check.h"
#include "atp/wire/join.h"

namespace atp {
namespace {

// Maps the members to the fields, for both writing and reading.
template <class Body, class Visit>
void visit_status(Body& status, Visit& visit) {
  using namespace status_field;
  visit(kCode, status.code);
  visit(kReason, status.reason);
  visit(kEndpointCount, status.endpoint_count);
  visit(kNonce, status.nonce);
}

void write_ranks(std::uint8_t* at, const RankSet& ranks, std::uint8_t words) {
  for (std::size_t w = 0; w < words; ++w) atp_store64(at + 8 * w, ranks.words()[w]);
}

RankSet read_ranks(const std::uint8_t* at, std::uint8_t words) {
  RankSet ranks;
  for (std::size_t w = 0; w < words; ++w) ranks.set_word(w, atp_load64(at + 8 * w));
  return ranks;
}

}  // namespace

std::string_view to_string(StatusCode code) {
  switch (code) {
    case StatusCode::kWaitingFor: return "waiting for";
    case StatusCode::kOperationMismatch: return "operation mismatch";
    case StatusCode::kRankTaken: return "rank taken";
    case StatusCode::kUnknownJob: return "unknown job";
    case StatusCode::kVersions: return "versions";
    case StatusCode::kRefused: return "refused";
    case StatusCode::kLeaseEnded: return "lease ended";
    case StatusCode::kDetached: return "detached";
    case StatusCode::kServerRestarted: return "server restarted";
    case StatusCode::kLeft: return "left";
    case StatusCode::kAreYouThere: return "are you there";
    case StatusCode::kHere: return "here";
    case StatusCode::kOperation: return "operation";
    case StatusCode::kProve: return "prove";
    case StatusCode::kCount: break;
  }
  return "unknown";
}

std::string_view to_string(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kNone: return "no reason given";
    case RefusalReason::kWorldSize: return "its world size differs from the other ranks'";
    case RefusalReason::kStreams: return "its stream range differs from the other ranks'";
    case RefusalReason::kValueCount:
      return "its path carries fewer values per packet than the job agreed on";
    case RefusalReason::kNumberFormat: return "its number format differs from the other ranks'";
    case RefusalReason::kUpstream:
      return "the switch may not send to the next hop of the route (see --upstream)";
    case RefusalReason::kRoute:
      return "the rank's route is empty, too long, or not in order (switches first, the server "
             "last)";
    case RefusalReason::kTooManyJobs: return "the node serves as many jobs as it can hold";
    case RefusalReason::kRank: return "the rank is not below the world size";
    case RefusalReason::kVersion: return "the rank and the node have no protocol version in common";
    case RefusalReason::kMemory: return "the job needs more memory than the node has left for it";
    case RefusalReason::kIncarnation: return "it waits in another incarnation of the job";
    case RefusalReason::kDraining:
      return "the node takes no new jobs, because it is being drained (`atp drain`); try again "
             "when it has been restarted, or use another one";
    case RefusalReason::kKey: return "its key is not accepted";
    case RefusalReason::kTenantJobs:
      return "its tenant has as many jobs at the node as its quota allows";
    case RefusalReason::kTenantMemory:
      return "the job needs more memory than its tenant has left at the node";
    case RefusalReason::kTooManyRanks: return "the job has too many ranks for values of 16 bits";
    case RefusalReason::kSocket: return "another rank has joined from the same socket";
    case RefusalReason::kCount: break;
  }
  return "unknown reason";
}

std::string_view to_string(KeyProblem problem) {
  switch (problem) {
    case KeyProblem::kNone: break;
    case KeyProblem::kNoTag:
      return "the node serves only jobs with a key, and the rank has none: set ATP_KEY_FILE, or "
             "use `atp run --key FILE`";
    case KeyProblem::kUnknownKey:
      return "the node has no key of the tenant's name: add the line of the rank's key file to the "
             "node's --keys file, then send the node SIGHUP";
    case KeyProblem::kWrongTag:
      return "the rank's key differs from the node's key of the same name (or an address "
             "translation on the way has changed where its packets come from): use the same line "
             "in both files";
    case KeyProblem::kNoKeys:
      return "the rank has a key, and the node none: start the node with --keys FILE, or the rank "
             "without ATP_KEY_FILE";
    case KeyProblem::kCount: break;
  }
  return "unknown problem";
}

Refusal memory_refusal(std::size_t left, std::size_t needed, RefusalReason reason) {
  constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  constexpr std::size_t kMax = std::numeric_limits<std::uint32_t>::max();
  return {reason, static_cast<std::uint32_t>(std::min(left / kMebibyte, kMax)),
          static_cast<std::uint32_t>(std::min((needed + kMebibyte - 1) / kMebibyte, kMax))};
}

StatusMessage StatusMessage::refused(const Refusal& refusal, const RankSet& about,
                                     std::uint64_t nonce) {
  StatusMessage status;
  status.code = StatusCode::kRefused;
  status.reason = static_cast<std::uint16_t>(refusal.reason);
  status.nonce = nonce;
  status.about = about;
  status.other = refusal.holders;
  status.numbers[0] = refusal.expected;
  status.numbers[1] = refusal.found;
  if (refusal.arrived_at != refusal.meant_for) {
    status.endpoints = {refusal.arrived_at, refusal.meant_for};
    status.endpoint_count = 2;
  }
  return status;
}

StatusMessage StatusMessage::prove(std::uint64_t proof, const RankSet& about, std::uint64_t nonce) {
  StatusMessage status;
  status.code = StatusCode::kProve;
  status.nonce = nonce;
  status.about = about;
  status.numbers[0] = static_cast<std::uint32_t>(proof >> 32);
  status.numbers[1] = static_cast<std::uint32_t>(proof);
  return status;
}

std::optional<StatusMessage> StatusMessage::answer_to(const PacketView& packet) {
  if (packet.type() != PacketType::kStatus) return std::nullopt;
  const auto question = read(packet.body, packet.header.bitmap_words);
  if (!question || question->code != StatusCode::kAreYouThere) return std::nullopt;
  StatusMessage answer;
  answer.code = StatusCode::kHere;
  answer.nonce = question->nonce;
  return answer;
}

bool StatusMessage::is_for_a_node_above(const PacketView& packet) {
  const std::size_t switches = atp_load16(&packet.body[status_field::kReason.offset]);
  return packet.switches_passed() < std::min(switches, Route::kMaxHops);
}

Refusal StatusMessage::refusal() const {
  Refusal refusal{.expected = numbers[0], .found = numbers[1], .holders = other};
  if (endpoint_count == 2) {
    refusal.arrived_at = endpoints[0];
    refusal.meant_for = endpoints[1];
  }
  if (reason < static_cast<std::uint16_t>(RefusalReason::kCount)) {
    refusal.reason = static_cast<RefusalReason>(reason);
  }
  return refusal;
}

std::size_t StatusMessage::bytes(std::uint8_t bitmap_words) const {
  if (code == StatusCode::kUnknownJob) return status_field::kCodeEnd;
  return status_field::kRanksAt + std::size_t{16} * bitmap_words +
         Endpoint::kWireBytes * endpoint_count + 4 * number_count() + cause.size();
}

void StatusMessage::write(std::uint8_t* at, std::uint8_t bitmap_words) const {
  ATP_CHECK(number_count() <= kMaxNumbers);
  const FieldWriter put(at);
  if (code == StatusCode::kUnknownJob) return put(status_field::kCode, code);
  visit_status(*this, put);
  put(status_field::kCauseBytes, static_cast<std::uint16_t>(cause.size()));
  at += status_field::kRanksAt;
  write_ranks(at, about, bitmap_words);
  at += 8 * bitmap_words;
  write_ranks(at, other, bitmap_words);
  at += 8 * bitmap_words;
  for (std::size_t i = 0; i < endpoint_count; ++i, at += Endpoint::kWireBytes) {
    write_endpoint(at, endpoints[i]);
  }
  for (std::size_t i = 0; i < number_count(); ++i, at += 4) atp_store32(at, numbers[i]);
  cause.write(at);
}

std::optional<StatusMessage> StatusMessage::read(std::span<const std::uint8_t> body,
                                                 std::uint8_t bitmap_words) {
  StatusMessage status;
  status.code = StatusCode::kUnknownJob;
  if (body.size() == status_field::kCodeEnd) {
    const bool is_it = atp_load16(body.data()) == static_cast<std::uint16_t>(status.code);
    return is_it ? std::optional(status) : std::nullopt;
  }
  if (body.size() < status_field::kRanksAt + std::size_t{16} * bitmap_words) return std::nullopt;
  const std::uint8_t* at = body.data();
  FieldReader get(at);
  visit_status(status, get);
  std::uint16_t cause_bytes = 0;
  get(status_field::kCauseBytes, cause_bytes);
  if (!get.ok() || status.code == StatusCode::kUnknownJob) return std::nullopt;
  if (cause_bytes > CauseText::kMaxBytes) return std::nullopt;
  at += status_field::kRanksAt;
  status.about = read_ranks(at, bitmap_words);
  at += 8 * bitmap_words;
  status.other = read_ranks(at, bitmap_words);
  at += 8 * bitmap_words;
  if (status.endpoint_count > kMaxEndpoints || status.number_count() > kMaxNumbers) {
    return std::nullopt;
  }
  if (body.size() != status.bytes(bitmap_words) + cause_bytes) return std::nullopt;
  for (std::size_t i = 0; i < status.endpoint_count; ++i, at += Endpoint::kWireBytes) {
    status.endpoints[i] = read_endpoint(at);
  }
  for (std::size_t i = 0; i < status.number_count(); ++i, at += 4) {
    status.numbers[i] = atp_load32(at);
  }
  status.cause = CauseText::read({at, cause_bytes});
  return status;
}

std::optional<StatusMessage> StatusMessage::read(const PacketView& packet) {
  std::optional<StatusMessage> status = read(packet.body, packet.header.bitmap_words);
  if (status && status->code == StatusCode::kUnknownJob) status->about = packet.ranks;
  return status;
}

}  // namespace atp
