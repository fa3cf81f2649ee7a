#pragma once

#include "atp/core/dataplane/conformance/row.h"

// The words that the rows are made of: fragments, contributions and sums by name, and what may be
// different about them.

namespace atp::conformance {

// An aggregator that has never held anything.
constexpr Held fresh() { return {.state = ATP_FRESH, .name = {0, 0, 0, 0, 0}, .last_use = 0}; }
// One that holds nothing, and what it held last.
constexpr Held empty(FragmentName last) {
  return {.state = ATP_EMPTY, .name = last, .last_use = 0};
}
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
inline constexpr FragmentName kOtherIncarnation{.incarnation = 9};
inline constexpr FragmentName kOtherIncarnationLater{.incarnation = 9, .sequence = 101};
inline constexpr FragmentName kOtherStream{.stream = 9};
inline constexpr FragmentName kOtherStreamLater{.stream = 9, .sequence = 101};
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
