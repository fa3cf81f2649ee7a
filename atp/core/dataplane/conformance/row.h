#pragma once

#include <cstdint>
#include <optional>

#include "atp/core/dataplane/pipeline.h"

// A row of docs/protocol.md §4 as data: an aggregator, what arrives, and what must come of both.
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
  std::optional<FragmentName> passed;
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

}  // namespace atp::conformance
