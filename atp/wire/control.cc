#include "atp/wire/control.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "atp/base/check.h"

namespace atp {
namespace {

constexpr std::size_t kJoinFixedBytes = 36;
constexpr std::size_t kStatusFixedBytes = 16;

std::uint8_t* write_route(std::uint8_t* at, const Route& route) {
  for (const Endpoint& hop : route.hops()) {
    write_endpoint(at, hop);
    at += Endpoint::kWireBytes;
  }
  return at;
}

Route read_route(const std::uint8_t* at, std::size_t hops) {
  Route route;
  for (std::size_t i = 0; i < hops; ++i) {
    route.push_back(read_endpoint(at + i * Endpoint::kWireBytes));
  }
  return route;
}

void write_ranks(std::uint8_t* at, const RankSet& ranks, std::uint8_t words) {
  for (std::size_t w = 0; w < words; ++w) atp_store64(at + 8 * w, ranks.words()[w]);
}

RankSet read_ranks(const std::uint8_t* at, std::uint8_t words) {
  RankSet ranks;
  for (std::size_t w = 0; w < words; ++w) ranks.words()[w] = atp_load64(at + 8 * w);
  return ranks;
}

}  // namespace

std::size_t Join::bytes() const {
  return kJoinFixedBytes + Endpoint::kWireBytes * (remaining.size() + recorded.size());
}

void Join::write(std::uint8_t* at) const {
  atp_store64(at, nonce);
  atp_store64(at + 8, server_boot_id);
  atp_store16(at + 16, world_size);
  atp_store16(at + 18, first_stream);
  atp_store16(at + 20, stream_count);
  atp_store16(at + 22, max_value_count);
  at[24] = version_min;
  at[25] = version_max;
  at[26] = detached ? 1 : 0;
  at[27] = static_cast<std::uint8_t>(scale_mode);
  atp_store32(at + 28, detachments);
  at[32] = static_cast<std::uint8_t>(remaining.size());
  at[33] = static_cast<std::uint8_t>(recorded.size());
  atp_store16(at + 34, 0);
  write_route(write_route(at + kJoinFixedBytes, remaining), recorded);
}

std::optional<Join> Join::read(std::span<const std::uint8_t> body) {
  if (body.size() < kJoinFixedBytes) return std::nullopt;
  const std::uint8_t* at = body.data();
  const std::size_t remaining_hops = at[32];
  const std::size_t recorded_hops = at[33];
  if (remaining_hops > Route::kMaxHops || recorded_hops > Route::kMaxHops) return std::nullopt;
  if (body.size() != kJoinFixedBytes + Endpoint::kWireBytes * (remaining_hops + recorded_hops)) {
    return std::nullopt;
  }
  if (at[26] > 1 || at[27] > static_cast<std::uint8_t>(ScaleMode::kAutomatic)) {
    return std::nullopt;
  }
  Join join;
  join.nonce = atp_load64(at);
  join.server_boot_id = atp_load64(at + 8);
  join.world_size = atp_load16(at + 16);
  join.first_stream = atp_load16(at + 18);
  join.stream_count = atp_load16(at + 20);
  join.max_value_count = atp_load16(at + 22);
  join.version_min = at[24];
  join.version_max = at[25];
  join.detached = at[26] == 1;
  join.scale_mode = static_cast<ScaleMode>(at[27]);
  join.detachments = atp_load32(at + 28);
  join.remaining = read_route(at + kJoinFixedBytes, remaining_hops);
  join.recorded =
      read_route(at + kJoinFixedBytes + Endpoint::kWireBytes * remaining_hops, recorded_hops);

  const bool streams_ok = join.stream_count > 0 && join.first_stream + join.stream_count <= 0x10000;
  const bool sizes_ok = join.world_size >= 1 && join.world_size <= kMaxRanks &&
                        join.max_value_count >= 1 && join.max_value_count <= ATP_VALUES_MAX;
  if (!streams_ok || !sizes_ok) return std::nullopt;
  return join;
}

void JoinAck::write(std::uint8_t* at) const {
  atp_store64(at, nonce);
  atp_store64(at + 8, server_boot_id);
  atp_store64(at + 16, std::bit_cast<std::uint64_t>(scale));
  atp_store32(at + 24, detachments);
  atp_store32(at + 28, lease_ms);
  atp_store32(at + 32, wmax);
  atp_store16(at + 36, value_count);
  atp_store16(at + 38, world_size);
  atp_store16(at + 40, first_stream);
  atp_store16(at + 42, stream_count);
  at[44] = detached ? 1 : 0;
  at[45] = static_cast<std::uint8_t>(scale_mode);
  atp_store16(at + 46, linear_aggregators);
}

std::optional<JoinAck> JoinAck::read(std::span<const std::uint8_t> body) {
  if (body.size() != kBytes) return std::nullopt;
  const std::uint8_t* at = body.data();
  if (at[44] > 1 || at[45] > static_cast<std::uint8_t>(ScaleMode::kAutomatic)) {
    return std::nullopt;
  }
  JoinAck ack;
  ack.nonce = atp_load64(at);
  ack.server_boot_id = atp_load64(at + 8);
  ack.scale = std::bit_cast<double>(atp_load64(at + 16));
  ack.detachments = atp_load32(at + 24);
  ack.lease_ms = atp_load32(at + 28);
  ack.wmax = atp_load32(at + 32);
  ack.value_count = atp_load16(at + 36);
  ack.world_size = atp_load16(at + 38);
  ack.first_stream = atp_load16(at + 40);
  ack.stream_count = atp_load16(at + 42);
  ack.detached = at[44] == 1;
  ack.scale_mode = static_cast<ScaleMode>(at[45]);
  ack.linear_aggregators = atp_load16(at + 46);

  const bool window_ok = std::has_single_bit(ack.wmax) && ack.wmax <= 65536;
  const bool values_ok = ack.value_count >= 1 && ack.value_count <= ATP_VALUES_MAX;
  const bool scale_ok = ack.scale > 0 && ack.scale <= 1e300;  // false for NaN too
  const bool streams_ok = ack.stream_count > 0 && ack.first_stream + ack.stream_count <= 0x10000;
  if (!window_ok || !values_ok || !scale_ok || !streams_ok) return std::nullopt;
  if (ack.world_size == 0 || ack.world_size > kMaxRanks || ack.lease_ms == 0) return std::nullopt;
  return ack;
}

void Leave::write(std::uint8_t* at) const { atp_store64(at, nonce); }

std::optional<Leave> Leave::read(std::span<const std::uint8_t> body) {
  if (body.size() != kBytes) return std::nullopt;
  return Leave{atp_load64(body.data())};
}

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
      return "its path carries fewer values a packet than the job agreed on";
    case RefusalReason::kScaleMode: return "its scale mode differs from the other ranks'";
    case RefusalReason::kUpstream:
      return "the switch may not send to the next hop of the route (see --upstream)";
    case RefusalReason::kRoute:
      return "its route is empty, too long, or not in order (switches first, the server last)";
    case RefusalReason::kTooManyJobs: return "the node serves as many jobs as it can hold";
    case RefusalReason::kRank: return "its rank is not below the world size";
    case RefusalReason::kVersion: return "it speaks no common protocol version";
    case RefusalReason::kMemory: return "the job needs more memory than the node has left for it";
    case RefusalReason::kCount: break;
  }
  return "unknown reason";
}

Refusal memory_refusal(std::size_t left, std::size_t needed) {
  constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();
  return {RefusalReason::kMemory, static_cast<std::uint32_t>(std::min(left / kMebibyte, kMost)),
          static_cast<std::uint32_t>(std::min((needed + kMebibyte - 1) / kMebibyte, kMost))};
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
  return status;
}

Refusal StatusMessage::refusal() const {
  Refusal refusal{.expected = numbers[0], .found = numbers[1], .holders = other};
  if (reason < static_cast<std::uint16_t>(RefusalReason::kCount)) {
    refusal.reason = static_cast<RefusalReason>(reason);
  }
  return refusal;
}

std::size_t StatusMessage::bytes(std::uint8_t bitmap_words) const {
  return kStatusFixedBytes + std::size_t{16} * bitmap_words +
         Endpoint::kWireBytes * endpoint_count + 4 * number_count();
}

void StatusMessage::write(std::uint8_t* at, std::uint8_t bitmap_words) const {
  ATP_CHECK(number_count() <= kMaxNumbers);
  atp_store16(at, static_cast<std::uint16_t>(code));
  atp_store16(at + 2, reason);
  atp_store16(at + 4, endpoint_count);
  atp_store16(at + 6, 0);
  atp_store64(at + 8, nonce);
  at += kStatusFixedBytes;
  write_ranks(at, about, bitmap_words);
  at += 8 * bitmap_words;
  write_ranks(at, other, bitmap_words);
  at += 8 * bitmap_words;
  for (std::size_t i = 0; i < endpoint_count; ++i, at += Endpoint::kWireBytes) {
    write_endpoint(at, endpoints[i]);
  }
  for (std::size_t i = 0; i < number_count(); ++i, at += 4) atp_store32(at, numbers[i]);
}

std::optional<StatusMessage> StatusMessage::read(std::span<const std::uint8_t> body,
                                                 std::uint8_t bitmap_words) {
  if (body.size() < kStatusFixedBytes + std::size_t{16} * bitmap_words) return std::nullopt;
  const std::uint8_t* at = body.data();
  StatusMessage status;
  const std::uint16_t code = atp_load16(at);
  if (code >= static_cast<std::uint16_t>(StatusCode::kCount)) return std::nullopt;
  status.code = static_cast<StatusCode>(code);
  status.reason = atp_load16(at + 2);
  status.endpoint_count = atp_load16(at + 4);
  status.nonce = atp_load64(at + 8);
  at += kStatusFixedBytes;
  status.about = read_ranks(at, bitmap_words);
  at += 8 * bitmap_words;
  status.other = read_ranks(at, bitmap_words);
  at += 8 * bitmap_words;
  if (status.endpoint_count > kMaxEndpoints || status.number_count() > kMaxNumbers) {
    return std::nullopt;
  }
  if (body.size() != status.bytes(bitmap_words)) return std::nullopt;
  for (std::size_t i = 0; i < status.endpoint_count; ++i, at += Endpoint::kWireBytes) {
    status.endpoints[i] = read_endpoint(at);
  }
  for (std::size_t i = 0; i < status.number_count(); ++i, at += 4) {
    status.numbers[i] = atp_load32(at);
  }
  return status;
}

}  // namespace atp
