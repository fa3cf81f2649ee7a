#include "atp/core/dataplane/sweep.h"

#include "atp/core/dataplane/uplink.h"

namespace atp {
namespace {

void end_leases(Instant now, SwitchState& state) {
  const TreeTable::Ended ended = state.trees.expire(now);
  state.counters.add(SwitchCounter::kLeasesEnded, ended.leases);
  state.counters.add(SwitchCounter::kTreesDropped, ended.trees);
}

// Returns whether the aggregator stays in use.
bool sweep_slot(Instant now, SwitchState& state, std::uint32_t slot, Outbox& out) {
  if (state.aggregators[slot].state != ATP_AGGREGATING) return false;
  atp_fragment sum{};
  const auto reclaim = static_cast<std::uint64_t>(state.config.timing.reclaim.count());
  const atp_verdict verdict = state.decide(slot, [&](atp_aggregator& aggregator) {
    return atp_on_sweep(&aggregator, nanoseconds(now), reclaim, &sum);
  });
  if (verdict.reason == ATP_KEPT) return true;
  const bool emitted = emit_released(state, now, sum, slot, out);
  state.counters.add(emitted ? SwitchCounter::kSweptSumsSent : SwitchCounter::kSweptDiscarded);
  return false;
}

}  // namespace

void Sweep::run(Instant now, SwitchState& state, Outbox& out) {
  if (cursor_ == 0) end_leases(now, state);
  for (; cursor_ < state.aggregators.size(); ++cursor_) {
    if (!out.has_room(1)) {
      next_ = now;
      return;
    }
    kept_any_ = sweep_slot(now, state, cursor_, out) || kept_any_;
  }
  const bool idle = !kept_any_ && state.trees.size() == 0;
  next_ = idle ? kNever : now + state.config.timing.sweep;
  cursor_ = 0;
  kept_any_ = false;
}

}  // namespace atp
