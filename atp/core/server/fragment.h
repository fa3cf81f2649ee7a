#pragma once

#include <algorithm>
#include <cstdint>

#include "atp/base/rank_set.h"
#include "atp/base/time.h"
#include "atp/core/timing.h"
#include "atp/wire/packet.h"

// The server's state of one fragment, except its values, which the ring holds; and the cycle of
// FLUSH and NACK for a stalled one. Plain data.

namespace atp {

// A time before all others.
inline constexpr Instant kLongAgo = Instant::min();

enum class FragmentMode : std::uint8_t {
  kCollecting,         // int32 contributions, until the bitmap is full
  kAwaitingFloatSlot,  // the server asks for floats once a slot is free; until then the bitmap is
                       // full if integers overflowed, and empty if there are none
  kFloat,              // float32 contributions, with a bitmap that began empty
  kComplete,           // values, flags, magnitude and next index are final
};

// What the server does about a stalled fragment (docs/inside/protocol §6, H7, H16). It sends FLUSH
// once per switch level, because a level with a partial sum turns the FLUSH into that sum and does
// not forward it. When the flushed sums have had time to arrive, it sends NACK to the ranks still
// missing. Then it starts over, after a pause that doubles. So a stall without loss is resolved
// without waiting for W workers' timers, and a peer that is merely late costs a few small packets.
struct StallState {
  Instant act_at = kNever;
  std::uint8_t flushes = 0;  // sent in this cycle
  std::uint8_t cycles = 0;   // finished cycles, saturating
  bool operator==(const StallState&) const = default;
};

enum class StallAction : std::uint8_t { kNone, kFlush, kNack };

inline void restart_stall(StallState& stall, Instant now, const Timing& timing) {
  stall = {now + timing.flush_after, 0, 0};
}

// Returns what is due now, if anything, and advances the cycle. `levels`: switch levels that may
// hold sums.
inline StallAction next_stall_action(StallState& stall, Instant now, std::size_t levels,
                                     const Timing& timing) {
  if (now < stall.act_at) return StallAction::kNone;
  if (stall.flushes < levels) {
    ++stall.flushes;
    stall.act_at = now + timing.nack_after;
    return StallAction::kFlush;
  }
  stall.flushes = 0;
  if (stall.cycles < 16) ++stall.cycles;
  stall.act_at = now + std::min(timing.flush_after * (1 << stall.cycles), timing.flush_max);
  return StallAction::kNack;
}

// The ranks that were answered recently, so that a burst of duplicates causes one answer.
struct AnswerState {
  RankSet ranks;
  Instant since = kLongAgo;
  bool operator==(const AnswerState&) const = default;
};

struct Fragment {
  std::uint64_t sequence = 0;
  std::uint32_t operation = 0;
  std::uint32_t aggregator_index = 0;
  std::uint32_t next_index = 0;  // once complete
  std::uint32_t magnitude = 0;
  std::uint32_t float_slot = 0;  // in mode kFloat
  std::uint16_t value_count = 0;
  std::uint16_t packets = 0;  // that its sum is made of
  std::uint8_t kind = 0;
  std::uint8_t flags = 0;  // COLLISION, ECN, OVERFLOW as collected
  FragmentMode mode = FragmentMode::kCollecting;
  bool in_use = false;  // false: the slot holds a forgotten fragment
  bool named = false;   // a contribution has set its operation and shape
  Instant since{};      // its first packet, or when it was found to be overtaken
  RankSet bitmap;
  RankSet disagreeing;  // ranks that sent another operation (H31)
  RankSet ready;        // ranks that sent values that it could not keep: overflowed, or no slot
  StallState stall;
  AnswerState answered;

  bool complete() const { return mode == FragmentMode::kComplete; }
  std::size_t bytes() const { return std::size_t{value_count} * atp_value_bytes(kind); }
  bool operator==(const Fragment&) const = default;
};

// How a message names a fragment.
struct FragmentName {
  std::uint16_t stream = 0;  // as on the wire
  std::uint64_t sequence = 0;
  std::uint32_t operation = 0;
  std::uint32_t aggregator_index = 0;
  std::uint8_t kind = 0;

  bool operator==(const FragmentName&) const = default;
};

}  // namespace atp
