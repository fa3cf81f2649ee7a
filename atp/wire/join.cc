#include "atp/wire/join.h"

#include <algorithm>
#include <bit>

#include "atp/base/rank_set.h"

namespace atp {
namespace {

// Maps the members of each message to its fields, for both writing and reading.
template <class Body, class Visit>
void visit_join(Body& join, Visit& visit) {
  using namespace join_field;
  visit(kNonce, join.nonce);
  visit(kServerBootId, join.server_boot_id);
  visit(kWorldSize, join.world_size);
  visit(kFirstStream, join.first_stream);
  visit(kStreamCount, join.stream_count);
  visit(kMaxValueCount, join.max_value_count);
  visit(kVersionMin, join.version_min);
  visit(kVersionMax, join.version_max);
  visit(kDetached, join.detached);
  visit(kNumberFormat, join.number_format);
  visit(kDetachments, join.detachments);
  visit(kProof, join.proof);
}

template <class Body, class Visit>
void visit_join_ack(Body& ack, Visit& visit) {
  using namespace join_ack_field;
  visit(kNonce, ack.nonce);
  visit(kServerBootId, ack.server_boot_id);
  visit(kScale, ack.scale);
  visit(kDetachments, ack.detachments);
  visit(kLeaseMs, ack.lease_ms);
  visit(kWmax, ack.wmax);
  visit(kValueCount, ack.value_count);
  visit(kWorldSize, ack.world_size);
  visit(kFirstStream, ack.first_stream);
  visit(kStreamCount, ack.stream_count);
  visit(kDetached, ack.detached);
  visit(kNumberFormat, ack.number_format);
  visit(kLinearAggregators, ack.linear_aggregators);
}

bool is_world(std::uint16_t world_size) { return world_size >= 1 && world_size <= kMaxRanks; }

bool is_value_count(std::uint16_t count) { return count >= 1 && count <= ATP_VALUES_MAX; }

bool is_stream_range(std::uint16_t first, std::uint16_t count) {
  return count > 0 && first + count <= 0x10000;
}

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

static_assert(Join::kBytes >= join_field::kRoutesAt + 2 * Route::kMaxHops * Endpoint::kWireBytes);

}  // namespace

void Join::write(std::uint8_t* at) const {
  const FieldWriter put(at);
  visit_join(*this, put);
  put(join_field::kRemainingHops, static_cast<std::uint8_t>(remaining.size()));
  put(join_field::kRecordedHops, static_cast<std::uint8_t>(recorded.size()));
  put(join_field::kReserved, std::uint16_t{0});
  std::uint8_t* end = write_route(write_route(at + join_field::kRoutesAt, remaining), recorded);
  std::fill(end, at + kBytes, std::uint8_t{0});
}

std::optional<Join> Join::read(std::span<const std::uint8_t> body) {
  if (body.size() != kBytes) return std::nullopt;
  const std::uint8_t* at = body.data();
  const std::size_t remaining_hops = at[join_field::kRemainingHops.offset];
  const std::size_t recorded_hops = at[join_field::kRecordedHops.offset];
  if (remaining_hops > Route::kMaxHops || recorded_hops > Route::kMaxHops) return std::nullopt;
  Join join;
  FieldReader get(at);
  visit_join(join, get);
  at += join_field::kRoutesAt;
  join.remaining = read_route(at, remaining_hops);
  join.recorded = read_route(at + remaining_hops * Endpoint::kWireBytes, recorded_hops);
  const bool in_range = get.ok() && is_world(join.world_size) &&
                        is_value_count(join.max_value_count) &&
                        is_stream_range(join.first_stream, join.stream_count);
  return in_range ? std::optional(join) : std::nullopt;
}

void JoinAck::write(std::uint8_t* at) const {
  const FieldWriter put(at);
  visit_join_ack(*this, put);
}

std::optional<JoinAck> JoinAck::read(std::span<const std::uint8_t> body) {
  if (body.size() != kBytes) return std::nullopt;
  JoinAck ack;
  FieldReader get(body.data());
  visit_join_ack(ack, get);
  const bool window_ok = std::has_single_bit(ack.wmax) && ack.wmax <= 65536;
  const bool scale_ok = ack.scale > 0 && ack.scale <= 1e300;  // false for NaN too
  const bool in_range = get.ok() && window_ok && scale_ok && is_world(ack.world_size) &&
                        is_value_count(ack.value_count) && ack.lease_ms != 0 &&
                        is_stream_range(ack.first_stream, ack.stream_count);
  return in_range ? std::optional(ack) : std::nullopt;
}

void Leave::write(std::uint8_t* at) const {
  std::fill_n(at, kBytes, std::uint8_t{0});
  const FieldWriter put(at);
  put(leave_field::kNonce, nonce);
  cause.write(at + leave_field::kCauseAt);
}

std::optional<Leave> Leave::read(std::span<const std::uint8_t> body) {
  if (body.size() != kBytes) return std::nullopt;
  Leave leave;
  FieldReader get(body.data());
  get(leave_field::kNonce, leave.nonce);
  const auto cause = body.subspan(leave_field::kCauseAt, CauseText::kMaxBytes);
  leave.cause = CauseText::read(cause.first(
      static_cast<std::size_t>(std::find(cause.begin(), cause.end(), 0) - cause.begin())));
  return leave;
}

}  // namespace atp
