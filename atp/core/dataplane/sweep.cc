#include "atp/core/dataplane/sweep.h"

#include "atp/core/dataplane/upward.h"

namespace atp {
namespace {

void end_leases(SwitchTurn& turn) {
  const TreeTable::Ended ended = turn.state.trees.expire(turn.now);
  turn.count(SwitchCounter::kLeasesEnded, ended.leases);
  turn.count(SwitchCounter::kTreesDropped, ended.trees);
}

// Sweeps an aggregator in use; returns whether it stays in use.
bool sweep_slot(SwitchTurn& turn, std::uint32_t slot) {
  atp_fragment sum{};
  const auto reclaim = static_cast<std::uint64_t>(turn.config.timing.reclaim.count());
  const atp_verdict verdict = turn.state.decide(slot, [&](atp_aggregator& aggregator) {
    return atp_on_sweep(&aggregator, turn.state.home_of_held(slot), nanoseconds(turn.now), reclaim,
                        &sum);
  });
  if (verdict.reason == ATP_KEPT) return true;
  const bool emitted = emit_released(turn, sum, slot);
  turn.count(emitted ? SwitchCounter::kSweptSumsSent : SwitchCounter::kSweptDiscarded);
  return false;
}

}  // namespace

void Sweep::run(SwitchTurn& turn) {
  if (cursor_ == 0) end_leases(turn);
  const AggregatorTable& aggregators = turn.state.aggregators;
  const std::uint32_t end = aggregators.size();
  for (std::uint32_t slot = aggregators.next_held(cursor_); slot < end;
       slot = aggregators.next_held(slot + 1)) {
    if (!turn.out.has_room(1)) {
      cursor_ = slot;
      next_ = turn.now;
      return;
    }
    kept_any_ = sweep_slot(turn, slot) || kept_any_;
  }
  const bool idle = !kept_any_ && turn.state.trees.size() == 0;
  next_ = idle ? kNever : turn.now + turn.config.timing.sweep;
  cursor_ = 0;
  kept_any_ = false;
}

}  // namespace atp
