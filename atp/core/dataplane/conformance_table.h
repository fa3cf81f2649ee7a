#pragma once

#include <cstdint>

#include "atp/core/dataplane/pipeline.h"

// The table of docs/protocol.md §4 as data: an aggregator, what arrives, and what must come of
// both. Every switch engine (user space, eBPF, P4) runs these same rows, so that none has rules of
// its own.
//
// Unless a row says otherwise: the job is 1, its incarnation 2, the stream 3, the fragment 100, its
// operation 4; ranks 0, 1 and 2 are members and the sender stands for all three; it is kNow, and an
// aggregator was last used a moment ago. All kValueCount values of a packet or sum are `value`.
// Ranks are bits of one 64-bit word: a row holds in whichever word of a bitmap they stand.

namespace atp::conformance {

inline constexpr std::uint64_t kNow = 10'000'000'000;
inline constexpr std::uint64_t kReclaim = 1'000'000'000;
inline constexpr std::uint64_t kRecently = kNow - kReclaim;  // not longer ago than the reclaim time
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
};

struct Held {
  atp_aggregator_state state = ATP_AGGREGATING;
  FragmentName name;
  std::uint64_t ranks = 0;
  std::uint8_t flags = 0;
  std::uint32_t magnitude = 0;
  std::uint32_t value = 0;
  std::uint64_t last_use = kRecently;
  std::uint16_t value_count = kValueCount;
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
};

struct Tree {
  std::uint64_t members = 0b111;
  std::uint64_t detached = 0;
  std::uint64_t sender = 0b111;  // the ranks behind the sender
  std::uint64_t sequence_limit = 0;
  std::uint16_t value_count = kValueCount;
  std::uint32_t region = 1;  // aggregators that the job has here
  std::uint32_t quota = 1;   // and how many of them it may hold
};

enum class Event : std::uint8_t { kPacket, kSweep };

struct Row {
  const char* name;
  Event event = Event::kPacket;
  Tree tree;
  Held before;
  Packet in;
  atp_reason reason = ATP_REASONS;
  atp_forward forward = ATP_FORWARD_NOWHERE;
  Held after;
  Packet out;  // with ATP_FORWARD_PARENT
};

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

inline constexpr Row kTable[] = {
    // GRADIENT: what reaches no aggregator.
    {.name = "a bitmap wider than the job's is dropped",
     .before = kHolds0,
     .in = {.ranks = 0b010, .more_words = 1},
     .reason = ATP_DROP_BITMAP_WIDTH,
     .forward = ATP_FORWARD_NOWHERE,
     .after = kHolds0},
    {.name = "a packet with another K than the agreed one is dropped",
     .before = kHolds0,
     .in = {.ranks = 0b010, .value_count = 2},
     .reason = ATP_DROP_VALUE_COUNT,
     .forward = ATP_FORWARD_NOWHERE,
     .after = kHolds0},
    {.name = "an empty bitmap is dropped",
     .before = kHolds0,
     .in = {.ranks = 0},
     .reason = ATP_DROP_EMPTY_BITMAP,
     .forward = ATP_FORWARD_NOWHERE,
     .after = kHolds0},
    {.name = "a rank that is not the sender's is dropped",
     .tree = {.sender = 0b101},
     .before = kHolds0,
     .in = {.ranks = 0b110},
     .reason = ATP_DROP_FOREIGN_RANKS,
     .forward = ATP_FORWARD_NOWHERE,
     .after = kHolds0},
    {.name = "a rank that is not the sender's is dropped even with DIRECT",
     .tree = {.sender = 0b100},
     .before = kHolds0,
     .in = with(kFrom0, kDirect),
     .reason = ATP_DROP_FOREIGN_RANKS,
     .forward = ATP_FORWARD_NOWHERE,
     .after = kHolds0},
    {.name = "DIRECT passes the aggregator that it would fit",
     .before = kHolds01,
     .in = with(kFrom2, kDirect),
     .reason = ATP_PASS_DIRECT,
     .forward = ATP_FORWARD_PARENT,
     .after = kHolds01,
     .out = with(kFrom2, kDirect)},
    {.name = "DIRECT with RESEND passes and flushes nothing",
     .before = kHolds01,
     .in = with(kFrom2, kDirect | kResend),
     .reason = ATP_PASS_DIRECT,
     .forward = ATP_FORWARD_PARENT,
     .after = kHolds01,
     .out = with(kFrom2, kDirect | kResend)},
    {.name = "DIRECT claims no empty aggregator",
     .before = fresh(),
     .in = with(kFrom0, kDirect),
     .reason = ATP_PASS_DIRECT,
     .forward = ATP_FORWARD_PARENT,
     .after = fresh(),
     .out = with(kFrom0, kDirect)},
    {.name = "FLOAT passes and becomes DIRECT",
     .before = kHolds01,
     .in = with(kFrom2, kFloat),
     .reason = ATP_PASS_DIRECT,
     .forward = ATP_FORWARD_PARENT,
     .after = kHolds01,
     .out = with(kFrom2, kFloat | kDirect)},
    {.name = "a detached rank passes and becomes DIRECT",
     .tree = {.members = 0b110, .detached = 0b001},
     .before = fresh(),
     .in = kFrom0,
     .reason = ATP_PASS_DETACHED,
     .forward = ATP_FORWARD_PARENT,
     .after = fresh(),
     .out = with(kFrom0, kDirect)},
    {.name = "a sum with one detached rank in it passes and becomes DIRECT",
     .tree = {.members = 0b110, .detached = 0b001},
     .before = fresh(),
     .in = kSum01,
     .reason = ATP_PASS_DETACHED,
     .forward = ATP_FORWARD_PARENT,
     .after = fresh(),
     .out = with(kSum01, kDirect)},
    {.name = "the last sequence within the limit is believed",
     .tree = {.sequence_limit = 100},
     .before = fresh(),
     .in = kFrom0,
     .reason = ATP_CLAIMED,
     .forward = ATP_FORWARD_NOWHERE,
     .after = used_now(kHolds0)},
    {.name = "a sequence beyond the limit passes and leaves no mark",
     .tree = {.sequence_limit = 99},
     .before = fresh(),
     .in = kFrom0,
     .reason = ATP_PASS_BEYOND_LIMIT,
     .forward = ATP_FORWARD_PARENT,
     .after = fresh(),
     .out = with(kFrom0, kDirect)},
    {.name = "while K is unknown a packet that fits is taken",
     .tree = {.value_count = 0},
     .before = fresh(),
     .in = {.ranks = 0b001, .magnitude = 5, .value = 5, .value_count = kValueLimit},
     .reason = ATP_CLAIMED,
     .forward = ATP_FORWARD_NOWHERE,
     .after = {.ranks = 0b001,
               .magnitude = 5,
               .value = 5,
               .last_use = kNow,
               .value_count = kValueLimit}},
    {.name = "while K is unknown a packet that fits no aggregator passes",
     .tree = {.value_count = 0},
     .before = fresh(),
     .in = {.ranks = 0b001, .value_count = kValueLimit + 1},
     .reason = ATP_PASS_SHAPE,
     .forward = ATP_FORWARD_PARENT,
     .after = fresh(),
     .out = {.ranks = 0b001, .flags = kDirect, .value_count = kValueLimit + 1}},
    {.name = "while K is unknown a packet with fewer values than its sum passes",
     .tree = {.value_count = 0},
     .before = kHolds0,
     .in = {.ranks = 0b010, .value_count = 2},
     .reason = ATP_PASS_SHAPE,
     .forward = ATP_FORWARD_PARENT,
     .after = kHolds0,
     .out = {.ranks = 0b010, .flags = kDirect, .value_count = 2}},

    // GRADIENT of a job with less than a share of all.
    {.name = "a job without a region passes the aggregator that it would fit",
     .tree = {.region = 0},
     .before = kHolds01,
     .in = kFrom2,
     .reason = ATP_PASS_NO_REGION,
     .forward = ATP_FORWARD_PARENT,
     .after = kHolds01,
     .out = kFrom2},
    {.name = "a job at its quota claims nothing, and leaves a mark for the fragment's others",
     .tree = {.quota = 0},
     .before = empty(kOtherJob),
     .in = kFrom0,
     .reason = ATP_PASS_OVER_QUOTA,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kThis),
     .out = kFrom0},
    {.name = "a job at its quota takes no mark back",
     .tree = {.quota = 0},
     .before = empty(kLater),
     .in = kFrom0,
     .reason = ATP_PASS_LATE,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kLater),
     .out = kFrom0},
    {.name = "a job at its quota adds to what it holds",
     .tree = {.quota = 0},
     .before = kHolds01,
     .in = kFrom2,
     .reason = ATP_COMPLETED,
     .forward = ATP_FORWARD_PARENT,
     .after = used_now(kHoldsAll),
     .out = kSumAll},

    // GRADIENT meets an EMPTY aggregator.
    {.name = "a fresh aggregator is claimed",
     .before = fresh(),
     .in = kFrom0,
     .reason = ATP_CLAIMED,
     .forward = ATP_FORWARD_NOWHERE,
     .after = used_now(kHolds0)},
    {.name = "a claim takes the sticky flags",
     .before = fresh(),
     .in = with(kFrom0, kCollision | kEcn | kOverflow),
     .reason = ATP_CLAIMED,
     .forward = ATP_FORWARD_NOWHERE,
     .after = used_now(with(kHolds0, kCollision | kEcn | kOverflow))},
    {.name = "a claim that is complete at once leaves as it came",
     .before = fresh(),
     .in = with(kSumAll, kCollision),
     .reason = ATP_COMPLETED,
     .forward = ATP_FORWARD_PARENT,
     .after = used_now(with(kHoldsAll, kCollision)),
     .out = with(kSumAll, kCollision)},
    {.name = "a claim of the only member is complete at once",
     .tree = {.members = 0b001},
     .before = fresh(),
     .in = kFrom0,
     .reason = ATP_COMPLETED,
     .forward = ATP_FORWARD_PARENT,
     .after = used_now(kHolds0),
     .out = kFrom0},
    {.name = "a fragment released already never claims again",
     .before = empty(kThis),
     .in = kFrom0,
     .reason = ATP_PASS_LATE,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kThis),
     .out = kFrom0},
    {.name = "the RESEND of a fragment released already passes",
     .before = empty(kThis),
     .in = with(kFrom0, kResend),
     .reason = ATP_PASS_LATE,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kThis),
     .out = with(kFrom0, kResend)},
    {.name = "an earlier fragment than the last of its stream never claims",
     .before = empty(kLater),
     .in = kFrom0,
     .reason = ATP_PASS_LATE,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kLater),
     .out = kFrom0},
    {.name = "an earlier fragment of another operation never claims either",
     .before = empty(kOtherOperationLater),
     .in = kFrom0,
     .reason = ATP_PASS_LATE,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kOtherOperationLater),
     .out = kFrom0},
    {.name = "a later fragment claims after an earlier one of its stream",
     .before = empty(kEarlier),
     .in = kFrom0,
     .reason = ATP_CLAIMED,
     .forward = ATP_FORWARD_NOWHERE,
     .after = used_now(kHolds0)},
    {.name = "a later fragment of another job is no mark",
     .before = empty(kOtherJobLater),
     .in = kFrom0,
     .reason = ATP_CLAIMED,
     .forward = ATP_FORWARD_NOWHERE,
     .after = used_now(kHolds0)},
    {.name = "a later fragment of another incarnation is no mark",
     .before = empty(kOtherIncarnationLater),
     .in = kFrom0,
     .reason = ATP_CLAIMED,
     .forward = ATP_FORWARD_NOWHERE,
     .after = used_now(kHolds0)},
    {.name = "a later fragment of another stream is no mark",
     .before = empty(kOtherStreamLater),
     .in = kFrom0,
     .reason = ATP_CLAIMED,
     .forward = ATP_FORWARD_NOWHERE,
     .after = used_now(kHolds0)},
    {.name = "the same sequence of another operation is no mark",
     .before = empty(kOtherOperation),
     .in = kFrom0,
     .reason = ATP_CLAIMED,
     .forward = ATP_FORWARD_NOWHERE,
     .after = used_now(kHolds0)},
    {.name = "sequence 0 of job 0 claims a fresh aggregator",
     .before = fresh(),
     .in = named(kFrom0, {0, 0, 0, 0, 0}),
     .reason = ATP_CLAIMED,
     .forward = ATP_FORWARD_NOWHERE,
     .after = used_now(named(kHolds0, {0, 0, 0, 0, 0}))},
    {.name = "RESEND passes a fresh aggregator",
     .before = fresh(),
     .in = with(kFrom0, kResend),
     .reason = ATP_PASS_RESEND,
     .forward = ATP_FORWARD_PARENT,
     .after = fresh(),
     .out = with(kFrom0, kResend)},
    {.name = "RESEND passes an aggregator that held another job",
     .before = empty(kOtherJob),
     .in = with(kFrom0, kResend),
     .reason = ATP_PASS_RESEND,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kOtherJob),
     .out = with(kFrom0, kResend)},

    // GRADIENT meets another identity.
    {.name = "a gradient that meets another job collides",
     .before = named(kHolds01, kOtherJob),
     .in = kFrom2,
     .reason = ATP_PASS_COLLISION,
     .forward = ATP_FORWARD_PARENT,
     .after = named(kHolds01, kOtherJob),
     .out = with(kFrom2, kCollision)},
    {.name = "a gradient that meets another incarnation collides",
     .before = named(kHolds01, kOtherIncarnation),
     .in = kFrom2,
     .reason = ATP_PASS_COLLISION,
     .forward = ATP_FORWARD_PARENT,
     .after = named(kHolds01, kOtherIncarnation),
     .out = with(kFrom2, kCollision)},
    {.name = "a gradient that meets another stream collides",
     .before = named(kHolds01, kOtherStream),
     .in = kFrom2,
     .reason = ATP_PASS_COLLISION,
     .forward = ATP_FORWARD_PARENT,
     .after = named(kHolds01, kOtherStream),
     .out = with(kFrom2, kCollision)},
    {.name = "a gradient that meets an earlier fragment collides",
     .before = named(kHolds01, kEarlier),
     .in = kFrom2,
     .reason = ATP_PASS_COLLISION,
     .forward = ATP_FORWARD_PARENT,
     .after = named(kHolds01, kEarlier),
     .out = with(kFrom2, kCollision)},
    {.name = "a gradient that meets a later fragment collides",
     .before = named(kHolds01, kLater),
     .in = kFrom2,
     .reason = ATP_PASS_COLLISION,
     .forward = ATP_FORWARD_PARENT,
     .after = named(kHolds01, kLater),
     .out = with(kFrom2, kCollision)},
    {.name = "a RESEND collides too and flushes nothing",
     .before = named(kHolds01, kOtherJob),
     .in = with(kFrom2, kResend),
     .reason = ATP_PASS_COLLISION,
     .forward = ATP_FORWARD_PARENT,
     .after = named(kHolds01, kOtherJob),
     .out = with(kFrom2, kResend | kCollision)},
    {.name = "a gradient never reclaims, however long the other is unused",
     .before = unused(named(kHolds01, kOtherJob)),
     .in = kFrom2,
     .reason = ATP_PASS_COLLISION,
     .forward = ATP_FORWARD_PARENT,
     .after = unused(named(kHolds01, kOtherJob)),
     .out = with(kFrom2, kCollision)},
    {.name = "another operation at the same place is a mismatch",
     .before = named(kHolds01, kOtherOperation),
     .in = kFrom2,
     .reason = ATP_PASS_OPERATION_MISMATCH,
     .forward = ATP_FORWARD_PARENT,
     .after = named(kHolds01, kOtherOperation),
     .out = with(kFrom2, kCollision)},

    // GRADIENT meets its own identity.
    {.name = "a disjoint contribution is added",
     .before = kHolds0,
     .in = {.ranks = 0b010, .magnitude = 7, .value = 7},
     .reason = ATP_ADDED,
     .forward = ATP_FORWARD_NOWHERE,
     .after = used_now(kHolds01)},
    {.name = "adding ORs the sticky flags",
     .before = with(kHolds0, kEcn),
     .in = {.ranks = 0b010, .flags = kOverflow | kCollision, .magnitude = 7, .value = 7},
     .reason = ATP_ADDED,
     .forward = ATP_FORWARD_NOWHERE,
     .after = used_now(with(kHolds01, kEcn | kOverflow | kCollision))},
    {.name = "values are added modulo 2^32",
     .before = {.ranks = 0b001, .magnitude = 0x7fffffff, .value = 0x7fffffff},
     .in = {.ranks = 0b010, .magnitude = 1, .value = 0x80000002},
     .reason = ATP_ADDED,
     .forward = ATP_FORWARD_NOWHERE,
     .after = {.ranks = 0b011, .magnitude = 0x80000000, .value = 1, .last_use = kNow}},
    {.name = "magnitudes saturate",
     .before = {.ranks = 0b001, .magnitude = 0xfffffff0, .value = 1},
     .in = {.ranks = 0b010, .magnitude = 0x10, .value = 1},
     .reason = ATP_ADDED,
     .forward = ATP_FORWARD_NOWHERE,
     .after = {.ranks = 0b011, .magnitude = 0xffffffff, .value = 2, .last_use = kNow}},
    {.name = "magnitudes up to the limit are exact",
     .before = {.ranks = 0b001, .magnitude = 0xfffffff0, .value = 1},
     .in = {.ranks = 0b010, .magnitude = 0xf, .value = 1},
     .reason = ATP_ADDED,
     .forward = ATP_FORWARD_NOWHERE,
     .after = {.ranks = 0b011, .magnitude = 0xffffffff, .value = 2, .last_use = kNow}},
    {.name = "the last contribution completes the sum, which stays",
     .before = kHolds01,
     .in = kFrom2,
     .reason = ATP_COMPLETED,
     .forward = ATP_FORWARD_PARENT,
     .after = used_now(kHoldsAll),
     .out = kSumAll},
    {.name = "a sum that leaves carries no next index",
     .before = kHolds01,
     .in = {.ranks = 0b100, .magnitude = 8, .value = 8, .next_index = 6},
     .reason = ATP_COMPLETED,
     .forward = ATP_FORWARD_PARENT,
     .after = used_now(kHoldsAll),
     .out = kSumAll},
    {.name = "a complete sum carries the flags of all",
     .before = with(kHolds01, kCollision | kEcn),
     .in = with(kFrom2, kOverflow),
     .reason = ATP_COMPLETED,
     .forward = ATP_FORWARD_PARENT,
     .after = used_now(with(kHoldsAll, kCollision | kEcn | kOverflow)),
     .out = with(kSumAll, kCollision | kEcn | kOverflow)},
    {.name = "complete is a set, not a count",
     .tree = {.sender = 0b1111},
     .before = {.ranks = 0b001 | 0b1000, .magnitude = 12, .value = 12},
     .in = kFrom2,
     .reason = ATP_ADDED,
     .forward = ATP_FORWARD_NOWHERE,
     .after = {.ranks = 0b1101, .magnitude = 20, .value = 20, .last_use = kNow}},
    {.name = "a sum with more than the members is complete",
     .before = {.ranks = 0b1011, .magnitude = 12, .value = 12},
     .in = kFrom2,
     .reason = ATP_COMPLETED,
     .forward = ATP_FORWARD_PARENT,
     .after = {.ranks = 0b1111, .magnitude = 20, .value = 20, .last_use = kNow},
     .out = {.ranks = 0b1111, .magnitude = 20, .value = 20}},
    {.name = "without members every sum is complete",
     .tree = {.members = 0},
     .before = kHolds01,
     .in = kFrom2,
     .reason = ATP_COMPLETED,
     .forward = ATP_FORWARD_PARENT,
     .after = used_now(kHoldsAll),
     .out = kSumAll},
    {.name = "a disjoint RESEND takes the partial sum along",
     .before = with(kHolds0, kCollision),
     .in = {.ranks = 0b010, .flags = kResend, .magnitude = 7, .value = 7},
     .reason = ATP_SENT_PARTIAL,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kThis),
     .out = with(kSum01, kCollision | kResend)},
    {.name = "a RESEND that completes the sum releases it all the same",
     .before = kHolds01,
     .in = with(kFrom2, kResend),
     .reason = ATP_SENT_PARTIAL,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kThis),
     .out = with(kSumAll, kResend)},
    {.name = "a duplicate is consumed",
     .before = kHolds01,
     .in = kFrom0,
     .reason = ATP_DUPLICATE,
     .forward = ATP_FORWARD_NOWHERE,
     .after = used_now(kHolds01)},
    {.name = "a duplicate's ECN sticks, its other flags do not",
     .before = kHolds01,
     .in = with(kFrom0, kEcn | kCollision),
     .reason = ATP_DUPLICATE,
     .forward = ATP_FORWARD_NOWHERE,
     .after = used_now(with(kHolds01, kEcn))},
    {.name = "a duplicate of the whole partial sum is consumed",
     .before = kHolds01,
     .in = kSum01,
     .reason = ATP_DUPLICATE,
     .forward = ATP_FORWARD_NOWHERE,
     .after = used_now(kHolds01)},
    {.name = "a duplicate of a complete sum sends it again",
     .before = kHoldsAll,
     .in = with(kFrom0, kEcn),
     .reason = ATP_REPEATED,
     .forward = ATP_FORWARD_PARENT,
     .after = used_now(with(kHoldsAll, kEcn)),
     .out = with(kSumAll, kEcn)},
    {.name = "a duplicate sends a sum that is complete since the mask shrank",
     .tree = {.members = 0b011},
     .before = kHolds01,
     .in = kFrom0,
     .reason = ATP_REPEATED,
     .forward = ATP_FORWARD_PARENT,
     .after = used_now(kHolds01),
     .out = kSum01},
    {.name = "a RESEND of what is in the sum fetches and releases it",
     .before = with(kHolds01, kOverflow),
     .in = with(kFrom0, kResend),
     .reason = ATP_SENT_PARTIAL,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kThis),
     .out = with(kSum01, kOverflow | kResend)},
    {.name = "a RESEND fetches a complete sum too",
     .before = kHoldsAll,
     .in = with(kFrom0, kResend),
     .reason = ATP_SENT_PARTIAL,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kThis),
     .out = with(kSumAll, kResend)},
    {.name = "a partial overlap passes and becomes DIRECT",
     .before = kHolds01,
     .in = {.ranks = 0b110, .magnitude = 15, .value = 15},
     .reason = ATP_PASS_OVERLAP,
     .forward = ATP_FORWARD_PARENT,
     .after = kHolds01,
     .out = {.ranks = 0b110, .flags = kDirect, .magnitude = 15, .value = 15}},
    {.name = "a strict superset passes and becomes DIRECT",
     .before = kHolds0,
     .in = kSum01,
     .reason = ATP_PASS_OVERLAP,
     .forward = ATP_FORWARD_PARENT,
     .after = kHolds0,
     .out = with(kSum01, kDirect)},
    {.name = "an overlapping RESEND passes and becomes DIRECT",
     .before = kHolds01,
     .in = {.ranks = 0b110, .flags = kResend},
     .reason = ATP_PASS_OVERLAP,
     .forward = ATP_FORWARD_PARENT,
     .after = kHolds01,
     .out = {.ranks = 0b110, .flags = kResend | kDirect}},

    // PARAMETER.
    {.name = "a PARAMETER releases its aggregator",
     .before = kHoldsAll,
     .in = parameter(kThis),
     .reason = ATP_RELEASED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = empty(kThis)},
    {.name = "a PARAMETER releases a partial sum too",
     .before = with(kHolds0, kEcn),
     .in = parameter(kThis),
     .reason = ATP_RELEASED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = empty(kThis)},
    {.name = "a PARAMETER marks a fresh aggregator",
     .before = fresh(),
     .in = parameter(kThis),
     .reason = ATP_MARKED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = empty(kThis)},
    {.name = "a PARAMETER marks after an earlier fragment",
     .before = empty(kEarlier),
     .in = parameter(kThis),
     .reason = ATP_MARKED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = empty(kThis)},
    {.name = "a repeated PARAMETER leaves the same mark",
     .before = empty(kThis),
     .in = parameter(kThis),
     .reason = ATP_MARKED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = empty(kThis)},
    {.name = "a PARAMETER never takes a mark back",
     .before = empty(kLater),
     .in = parameter(kThis),
     .reason = ATP_MARK_KEPT,
     .forward = ATP_FORWARD_CHILDREN,
     .after = empty(kLater)},
    {.name = "a PARAMETER replaces the mark of another job",
     .before = empty(kOtherJobLater),
     .in = parameter(kThis),
     .reason = ATP_MARKED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = empty(kThis)},
    {.name = "a PARAMETER replaces the mark of another incarnation",
     .before = empty(kOtherIncarnationLater),
     .in = parameter(kThis),
     .reason = ATP_MARKED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = empty(kThis)},
    {.name = "a PARAMETER replaces the mark of another stream",
     .before = empty(kOtherStreamLater),
     .in = parameter(kThis),
     .reason = ATP_MARKED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = empty(kThis)},
    {.name = "a PARAMETER leaves the sum of another job alone",
     .before = named(kHolds01, kOtherJob),
     .in = parameter(kThis),
     .reason = ATP_HELD_BY_OTHER,
     .forward = ATP_FORWARD_CHILDREN,
     .after = named(kHolds01, kOtherJob)},
    {.name = "a PARAMETER leaves the sum of another incarnation alone",
     .before = named(kHolds01, kOtherIncarnation),
     .in = parameter(kThis),
     .reason = ATP_HELD_BY_OTHER,
     .forward = ATP_FORWARD_CHILDREN,
     .after = named(kHolds01, kOtherIncarnation)},
    {.name = "a PARAMETER leaves the sum of another stream alone",
     .before = named(kHolds01, kOtherStream),
     .in = parameter(kThis),
     .reason = ATP_HELD_BY_OTHER,
     .forward = ATP_FORWARD_CHILDREN,
     .after = named(kHolds01, kOtherStream)},
    {.name = "a PARAMETER leaves the sum of an earlier fragment alone",
     .before = named(kHolds01, kEarlier),
     .in = parameter(kThis),
     .reason = ATP_HELD_BY_OTHER,
     .forward = ATP_FORWARD_CHILDREN,
     .after = named(kHolds01, kEarlier)},
    {.name = "a PARAMETER leaves the sum of a later fragment alone",
     .before = named(kHolds01, kLater),
     .in = parameter(kThis),
     .reason = ATP_HELD_BY_OTHER,
     .forward = ATP_FORWARD_CHILDREN,
     .after = named(kHolds01, kLater)},
    {.name = "a PARAMETER leaves the sum of another operation alone",
     .before = named(kHolds01, kOtherOperation),
     .in = parameter(kThis),
     .reason = ATP_HELD_BY_OTHER,
     .forward = ATP_FORWARD_CHILDREN,
     .after = named(kHolds01, kOtherOperation)},
    {.name = "a PARAMETER reclaims another identity that is unused",
     .before = unused(named(kHolds01, kOtherJob)),
     .in = parameter(kThis),
     .reason = ATP_RECLAIMED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = empty(kOtherJob)},
    {.name = "a PARAMETER releases its own aggregator, unused or not",
     .before = unused(kHolds01),
     .in = parameter(kThis),
     .reason = ATP_RELEASED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = empty(kThis)},

    // FLUSH.
    {.name = "a FLUSH becomes the partial sum",
     .before = with(kHolds01, kCollision),
     .in = flush(kThis),
     .reason = ATP_FLUSHED,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kThis),
     .out = with(kSum01, kCollision | kResend)},
    {.name = "a FLUSH fetches a complete sum too",
     .before = kHoldsAll,
     .in = flush(kThis),
     .reason = ATP_FLUSHED,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kThis),
     .out = with(kSumAll, kResend)},
    {.name = "a FLUSH passes a fresh aggregator and leaves no mark",
     .before = fresh(),
     .in = flush(kThis),
     .reason = ATP_FLUSH_PASSED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = fresh()},
    {.name = "a FLUSH passes the aggregator that was flushed before",
     .before = empty(kThis),
     .in = flush(kThis),
     .reason = ATP_FLUSH_PASSED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = empty(kThis)},
    {.name = "a FLUSH passes the sum of another job",
     .before = named(kHolds01, kOtherJob),
     .in = flush(kThis),
     .reason = ATP_FLUSH_PASSED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = named(kHolds01, kOtherJob)},
    {.name = "a FLUSH passes the sum of another incarnation",
     .before = named(kHolds01, kOtherIncarnation),
     .in = flush(kThis),
     .reason = ATP_FLUSH_PASSED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = named(kHolds01, kOtherIncarnation)},
    {.name = "a FLUSH passes the sum of another stream",
     .before = named(kHolds01, kOtherStream),
     .in = flush(kThis),
     .reason = ATP_FLUSH_PASSED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = named(kHolds01, kOtherStream)},
    {.name = "a FLUSH passes the sum of an earlier fragment",
     .before = named(kHolds01, kEarlier),
     .in = flush(kThis),
     .reason = ATP_FLUSH_PASSED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = named(kHolds01, kEarlier)},
    {.name = "a FLUSH passes the sum of a later fragment",
     .before = named(kHolds01, kLater),
     .in = flush(kThis),
     .reason = ATP_FLUSH_PASSED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = named(kHolds01, kLater)},
    {.name = "a FLUSH passes the sum of another operation",
     .before = named(kHolds01, kOtherOperation),
     .in = flush(kThis),
     .reason = ATP_FLUSH_PASSED,
     .forward = ATP_FORWARD_CHILDREN,
     .after = named(kHolds01, kOtherOperation)},

    // The sweep.
    {.name = "the sweep leaves an aggregator in use alone",
     .event = Event::kSweep,
     .before = kHolds01,
     .reason = ATP_KEPT,
     .forward = ATP_FORWARD_NOWHERE,
     .after = kHolds01},
    {.name = "the sweep emits an unused sum as RESEND",
     .event = Event::kSweep,
     .before = unused(with(kHolds01, kEcn)),
     .reason = ATP_SWEPT,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kThis),
     .out = with(kSum01, kEcn | kResend)},
    {.name = "the sweep leaves a mark alone",
     .event = Event::kSweep,
     .before = empty(kThis),
     .reason = ATP_KEPT,
     .forward = ATP_FORWARD_NOWHERE,
     .after = empty(kThis)},
    {.name = "the sweep leaves a fresh aggregator alone",
     .event = Event::kSweep,
     .before = fresh(),
     .reason = ATP_KEPT,
     .forward = ATP_FORWARD_NOWHERE,
     .after = fresh()},
    {.name = "the sweep trusts no use in the future",
     .event = Event::kSweep,
     .before = {.ranks = 0b001, .last_use = kNow + 5 * kReclaim},
     .reason = ATP_KEPT,
     .forward = ATP_FORWARD_NOWHERE,
     .after = {.ranks = 0b001, .last_use = kNow + 5 * kReclaim}},
};

}  // namespace atp::conformance
