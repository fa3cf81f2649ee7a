#pragma once

#include <cstdint>
#include <optional>

#include "atp/core/dataplane/pipeline.h"

// A row of docs/inside/protocol §4 as data: an aggregator, the packet that arrives, and the
// outcome.
//
// Unless a row says otherwise: the job is 1, its incarnation 2, the stream 3, the fragment 100, its
// operation 4, and nobody has keys; ranks 0, 1 and 2 are members, all behind the sender; the time
// is kNow, and the aggregator was used recently. All kValueCount values of a packet or sum are
// `value`. Ranks are bits of one 64-bit word, and the row must hold whichever word of the bitmap
// that is.

namespace atp::conformance {

inline constexpr std::uint64_t kNow = 10'000'000'000;
inline constexpr std::uint64_t kReclaim = 1'000'000'000;
inline constexpr std::uint64_t kRecently = kNow - kReclaim;  // no longer ago than the reclaim time
inline constexpr std::uint64_t kLongAgo = kNow - kReclaim - 1;
inline constexpr std::uint16_t kValueCount = 3;
inline constexpr std::uint16_t kValueLimit = 4;
inline constexpr std::uint32_t kIndex = 0x12345678;

struct FragmentName {
  std::uint32_t job = 1;
  std::uint32_t incarnation = 2;
  std::uint16_t stream = 3;
  std::uint64_t sequence = 100;
  std::uint32_t operation = 4;
  std::uint16_t tenant = 0;
};

struct Held {
  atp_aggregator_state state = ATP_AGGREGATING;
  FragmentName name;  // of what it holds
  std::optional<FragmentName> returned;
  std::optional<FragmentName> passed;
  std::uint64_t ranks = 0;
  std::uint8_t flags = 0;
  std::uint32_t magnitude = 0;
  std::uint32_t value = 0;
  std::uint64_t last_use = kRecently;
  std::uint16_t value_count = kValueCount;
  std::uint8_t kind = ATP_KIND_SUM_FIXED;
  std::uint8_t hops = ATP_HOPS;
};

struct Packet {
  atp_packet_type type = ATP_GRADIENT;
  FragmentName name;
  std::uint64_t ranks = 0;
  std::uint8_t flags = 0;
  std::uint32_t magnitude = 0;
  std::uint32_t value = 0;
  std::uint16_t value_count = kValueCount;
  std::uint8_t more_words = 0;  // bitmap words beyond those of the job
  std::uint32_t next_index = 0;
  std::uint8_t kind = ATP_KIND_SUM_FIXED;
  std::uint8_t hops = ATP_HOPS;
};

struct Tree {
  std::uint64_t members = 0b111;
  std::uint64_t detached = 0;
  std::uint64_t sender = 0b111;  // the ranks behind the sender
  std::uint64_t sequence_limit = 0;
  std::uint16_t value_count = kValueCount;
  std::uint32_t region = 1;  // how many aggregators the job has here
  std::uint32_t quota = 1;   // how many of them it may hold
};

enum class Event : std::uint8_t { kPacket, kSweep };

struct Row {
  const char* name;
  Event event = Event::kPacket;
  Tree tree;
  Held before;
  std::optional<Held> home;  // of the packet's fragment; nothing: the aggregator itself
  Packet in;
  atp_reason reason = ATP_REASONS;
  atp_forward forward = ATP_FORWARD_NOWHERE;
  Held after;
  std::optional<Held> home_after;
  Packet out;  // with ATP_FORWARD_PARENT
};

// --- the vocabulary of the rows: fragments, contributions and sums by name, and variations of them

constexpr Held returned_to(Held held, FragmentName name) {
  held.returned = name;
  return held;
}
// An EMPTY aggregator without notes.
constexpr Held fresh() { return {.state = ATP_EMPTY, .last_use = 0}; }
// An EMPTY aggregator and the fragment that returned to it last.
constexpr Held empty(FragmentName returned) { return returned_to(fresh(), returned); }
constexpr Held used_now(Held held) {
  held.last_use = kNow;
  return held;
}
constexpr Packet parameter(FragmentName name) {
  return {.type = ATP_PARAMETER, .name = name, .ranks = 0b111, .magnitude = 30, .value = 30};
}
constexpr Packet flush(FragmentName name) {
  return {.type = ATP_FLUSH, .name = name, .ranks = 0b100, .value_count = 0};
}

inline constexpr FragmentName kThis{};
inline constexpr FragmentName kEarlier{.sequence = 99};
inline constexpr FragmentName kLater{.sequence = 101};
inline constexpr FragmentName kOtherJob{.job = 9};
inline constexpr FragmentName kOtherJobLater{.job = 9, .sequence = 101};
inline constexpr FragmentName kOtherTenant{.tenant = 9};
inline constexpr FragmentName kOtherTenantLater{.sequence = 101, .tenant = 9};
inline constexpr FragmentName kOtherIncarnation{.incarnation = 9};
inline constexpr FragmentName kOtherIncarnationLater{.incarnation = 9, .sequence = 101};
inline constexpr FragmentName kOtherStream{.stream = 9};
inline constexpr FragmentName kOtherStreamLater{.stream = 9, .sequence = 101};
inline constexpr FragmentName kNoOperationNamed{.operation = 0};
inline constexpr FragmentName kOtherOperation{.operation = 9};
inline constexpr FragmentName kOtherOperationLater{.sequence = 101, .operation = 9};

// Contributions and sums that the rows are made of.
inline constexpr Packet kFrom0{.ranks = 0b001, .magnitude = 5, .value = 5};
inline constexpr Packet kFrom2{.ranks = 0b100, .magnitude = 8, .value = 8};
inline constexpr Held kHolds0{.ranks = 0b001, .magnitude = 5, .value = 5};
inline constexpr Held kHolds01{.ranks = 0b011, .magnitude = 12, .value = 12};
inline constexpr Held kHoldsAll{.ranks = 0b111, .magnitude = 20, .value = 20};
inline constexpr Packet kSum01{.ranks = 0b011, .magnitude = 12, .value = 12};
inline constexpr Packet kSumAll{.ranks = 0b111, .magnitude = 20, .value = 20};

constexpr Packet with(Packet packet, unsigned flags) {
  packet.flags = static_cast<std::uint8_t>(packet.flags | flags);
  return packet;
}
constexpr Held with(Held held, unsigned flags) {
  held.flags = static_cast<std::uint8_t>(held.flags | flags);
  return held;
}
constexpr Packet of_kind(Packet packet, atp_kind kind) {
  packet.kind = static_cast<std::uint8_t>(kind);
  return packet;
}
constexpr Held of_kind(Held held, atp_kind kind) {
  held.kind = static_cast<std::uint8_t>(kind);
  return held;
}
constexpr Packet named(Packet packet, FragmentName name) {
  packet.name = name;
  return packet;
}
constexpr Held named(Held held, FragmentName name) {
  held.name = name;
  return held;
}
constexpr Held passed_by(Held held, FragmentName name) {
  held.passed = name;
  return held;
}
constexpr Held unused(Held held) {
  held.last_use = kLongAgo;
  return held;
}

inline constexpr unsigned kResend = ATP_FLAG_RESEND;
inline constexpr unsigned kDirect = ATP_FLAG_DIRECT;
inline constexpr unsigned kCollision = ATP_FLAG_COLLISION;
inline constexpr unsigned kEcn = ATP_FLAG_ECN;
inline constexpr unsigned kOverflow = ATP_FLAG_OVERFLOW;
inline constexpr unsigned kFloat = ATP_FLAG_FLOAT;

}  // namespace atp::conformance
