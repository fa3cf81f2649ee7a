#pragma once

#include <algorithm>

#include "atp/core/server/fragment.h"
#include "atp/core/timing.h"

// The cycle by which the server pulls a stalled fragment along (docs/protocol.md §6, H7, H16):
// FLUSH once for each switch level, as a level that holds a partial sum turns the FLUSH into that
// sum and passes it no further; then, when the flushed sums had time to arrive, NACK to the ranks
// still missing; then again, after a pause that doubles. So a stall without any loss is resolved
// without waiting for W workers' timers, and a peer that is merely late costs a few small packets.

namespace atp {

enum class StallAction : std::uint8_t { kNone, kFlush, kNack };

inline void restart_stall(StallState& stall, Instant now, const Timing& timing) {
  stall = {now + timing.flush_after, 0, 0};
}

// What is due now, if anything; moves the cycle on. `levels`: switch levels that may hold sums.
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

}  // namespace atp
