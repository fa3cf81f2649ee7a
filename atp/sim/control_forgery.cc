// The attacker's table of control bodies: every field, and its invalid values.
#include "atp/sim/control_forgery.h"

#include <array>
#include <span>

#include "atp/wire/join.h"
#include "atp/wire/status.h"

namespace atp::sim {
namespace {

constexpr std::array kJoinFields{
    join_field::kNonce,
    join_field::kServerBootId,
    join_field::kWorldSize,
    join_field::kFirstStream,
    join_field::kStreamCount,
    join_field::kMaxValueCount,
    join_field::kVersionMin,
    join_field::kVersionMax,
    join_field::kDetached,
    join_field::kNumberFormat,
    join_field::kDetachments,
    join_field::kRemainingHops,
    join_field::kRecordedHops,
    join_field::kReserved,
    join_field::kProof,
    BodyField{join_field::kRoutesAt, Endpoint::kWireBytes},
    BodyField{join_field::kRoutesAt + Endpoint::kWireBytes, Endpoint::kWireBytes}};
constexpr std::array kJoinAckFields{join_ack_field::kNonce,
                                    join_ack_field::kServerBootId,
                                    join_ack_field::kScale,
                                    join_ack_field::kDetachments,
                                    join_ack_field::kLeaseMs,
                                    join_ack_field::kWmax,
                                    join_ack_field::kValueCount,
                                    join_ack_field::kWorldSize,
                                    join_ack_field::kFirstStream,
                                    join_ack_field::kStreamCount,
                                    join_ack_field::kDetached,
                                    join_ack_field::kNumberFormat,
                                    join_ack_field::kLinearAggregators};
constexpr std::array kLeaveFields{leave_field::kNonce};
// The offset after the fixed fields of a STATUS in a job with one bitmap word: two sets of ranks,
// then an endpoint, or a number in its place.
constexpr std::size_t kAfterRanks = status_field::kRanksAt + 16;
constexpr std::array kStatusFields{status_field::kCode,
                                   status_field::kReason,
                                   status_field::kEndpointCount,
                                   status_field::kCauseBytes,
                                   status_field::kNonce,
                                   BodyField{status_field::kRanksAt, 8},
                                   BodyField{status_field::kRanksAt + 8, 8},
                                   BodyField{kAfterRanks, Endpoint::kWireBytes},
                                   BodyField{kAfterRanks, 4},
                                   BodyField{kAfterRanks + 4, 4}};

// An invalid value of a field.
struct Outlaw {
  BodyField field;
  std::uint64_t value;
};

constexpr std::array kJoinOutlaws{Outlaw{join_field::kWorldSize, 0},
                                  Outlaw{join_field::kWorldSize, kMaxRanks + 1},
                                  Outlaw{join_field::kStreamCount, 0},
                                  Outlaw{join_field::kMaxValueCount, 0},
                                  Outlaw{join_field::kMaxValueCount, ATP_VALUES_MAX + 1},
                                  Outlaw{join_field::kDetached, 2},
                                  Outlaw{join_field::kNumberFormat, 4},
                                  Outlaw{join_field::kRemainingHops, Route::kMaxHops + 1},
                                  Outlaw{join_field::kRecordedHops, 255}};
constexpr std::array kJoinAckOutlaws{Outlaw{join_ack_field::kScale, 0},
                                     Outlaw{join_ack_field::kLeaseMs, 0},
                                     Outlaw{join_ack_field::kWmax, 0},
                                     Outlaw{join_ack_field::kWmax, 65537},
                                     Outlaw{join_ack_field::kValueCount, 0},
                                     Outlaw{join_ack_field::kWorldSize, 0},
                                     Outlaw{join_ack_field::kStreamCount, 0},
                                     Outlaw{join_ack_field::kDetached, 2},
                                     Outlaw{join_ack_field::kWorldSize, kMaxRanks + 1},
                                     Outlaw{join_ack_field::kValueCount, ATP_VALUES_MAX + 1}};
constexpr std::array kStatusOutlaws{
    Outlaw{status_field::kCode, static_cast<std::uint64_t>(StatusCode::kCount)},
    Outlaw{status_field::kCode, 0xffff},
    Outlaw{status_field::kEndpointCount, StatusMessage::kMaxEndpoints + 1},
    Outlaw{status_field::kEndpointCount, 0xffff},
    Outlaw{status_field::kCauseBytes, CauseText::kMaxBytes + 1}};

std::span<const BodyField> fields_of(std::uint8_t type) {
  switch (type) {
    case ATP_JOIN: return kJoinFields;
    case ATP_JOIN_ACK: return kJoinAckFields;
    case ATP_LEAVE: return kLeaveFields;
    case ATP_STATUS: return kStatusFields;
    default: return {};
  }
}

std::span<const Outlaw> outlaws_of(std::uint8_t type) {
  switch (type) {
    case ATP_JOIN: return kJoinOutlaws;
    case ATP_JOIN_ACK: return kJoinAckOutlaws;
    case ATP_STATUS: return kStatusOutlaws;
    default: return {};
  }
}

// The bytes of a field; empty if the packet is too short.
std::span<std::uint8_t> place(PacketBytes& bytes, BodyField field) {
  const std::size_t at = atp_body_offset(bytes[ATP_AT_BITMAP_WORDS]) + field.offset;
  return at + field.bytes <= bytes.size() ? std::span(bytes).subspan(at, field.bytes)
                                          : std::span<std::uint8_t>{};
}

void put(std::span<std::uint8_t> at, std::uint64_t value) {
  for (std::size_t i = at.size(); i-- > 0; value >>= 8) at[i] = static_cast<std::uint8_t>(value);
}

// A number near the limits of a field, where a careless sum or product would overflow.
std::uint64_t telling_value(Random& random) {
  constexpr std::array<std::uint64_t, 13> kValues{
      0, 1, 2, 3, 8, 64, 65, 1024, 1025, 0x7fff, 0xffff, 0xffffffff, ~std::uint64_t{0}};
  return kValues[random.below(kValues.size())];
}

}  // namespace

bool is_control(const PacketBytes& bytes) {
  return bytes.size() >= ATP_HEADER_BYTES && !fields_of(bytes[ATP_AT_TYPE]).empty();
}

void change_body_field(PacketBytes& bytes, Random& random) {
  if (!is_control(bytes)) return;
  const std::span<const BodyField> fields = fields_of(bytes[ATP_AT_TYPE]);
  const BodyField field = fields[random.below(fields.size())];
  const std::span<std::uint8_t> at = place(bytes, field);
  if (random.chance(0.5)) return put(at, telling_value(random));
  for (std::uint8_t& byte : at) {
    byte = random.chance(0.5) ? static_cast<std::uint8_t>(random.next())
                              : static_cast<std::uint8_t>(byte ^ (1U << random.below(8)));
  }
}

void make_body_unreadable(PacketBytes& bytes, Random& random) {
  const std::span<const Outlaw> outlaws =
      is_control(bytes) ? outlaws_of(bytes[ATP_AT_TYPE]) : std::span<const Outlaw>{};
  if (outlaws.empty()) {
    bytes.push_back(0);
    return;
  }
  const Outlaw& outlaw = outlaws[random.below(outlaws.size())];
  put(place(bytes, outlaw.field), outlaw.value);
}

void forget_nonce(PacketBytes& bytes, Random& random) {
  if (!is_control(bytes)) return;
  // JOIN, JOIN_ACK and LEAVE all begin with the nonce.
  const bool is_status = bytes[ATP_AT_TYPE] == ATP_STATUS;
  put(place(bytes, is_status ? status_field::kNonce : join_field::kNonce), random.next());
}

PacketBytes leave_of(const PacketBytes& join) {
  PacketBytes leave = join;
  leave[ATP_AT_TYPE] = ATP_LEAVE;
  leave.resize(atp_body_offset(leave[ATP_AT_BITMAP_WORDS]) + Leave::kBytes);
  return leave;
}

}  // namespace atp::sim
