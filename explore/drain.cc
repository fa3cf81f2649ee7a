#include "explore/drain.h"

#include <algorithm>

namespace atp::explore {
namespace {

// Longer than any drain of the protocol takes, and shorter than the operations' time-out.
constexpr Duration kMostUntilDone = std::chrono::seconds(20);
// A sweep, the reclaim time and a JOIN's refresh, with room to spare.
constexpr Duration kMostUntilClean = std::chrono::seconds(6);

}  // namespace

std::size_t Drainer::pick(const State& state) const {
  switch (order_) {
    case DrainOrder::kLowestFirst: return 0;
    case DrainOrder::kHighestFirst: return state.packets.size() - 1;
    case DrainOrder::kMixed: break;
  }
  std::size_t sum = 0;
  for (const PacketPool::Id id : state.packets) sum = 31 * sum + id;
  return sum % state.packets.size();
}

Move Drainer::next_move(const State& state) const {
  if (!state.packets.empty()) return {MoveKind::kDeliver, state.packets[pick(state)]};
  return {MoveKind::kFire, world_.next_timer(state).host};
}

DrainResult Drainer::drain(State state) {
  const Cluster& cluster = world_.cluster();
  state.left = {};
  const Instant begin = cluster.time(state.now);
  DrainResult result;
  Instant done_at = kNever;
  const Duration most_until_clean = world_.ends_clean() ? Duration{0} : kMostUntilClean;
  // The new silent states, with the number of waits before each.
  std::vector<std::pair<StateTable::Id, std::uint32_t>> passed;
  const auto end_with = [&](const End& end) {
    for (const auto& [id, waits] : passed) {
      ends_[id] = {result.waits - waits + end.waits, std::min(done_at, end.done), end.clean};
    }
    if (done_at == kNever) {
      result.waits += end.waits;
      done_at = end.done;
    }
    result.until_done = std::max(done_at - begin, Duration{0});
    result.until_clean = std::max(end.clean - std::max(done_at, begin), Duration{0});
    return result;
  };
  for (;;) {
    const Instant now = cluster.time(state.now);
    const bool is_done = world_.done(state);
    if (is_done && done_at == kNever) done_at = now;
    if (state.packets.empty()) {
      const auto [id, is_new] = silent_.put(state);
      if (!is_new && !ends_[id].clean.time_since_epoch().count()) {
        result.objection = "the same silent state recurs";
        return result;
      }
      if (!is_new) return end_with(ends_[id]);
      ends_.emplace_back();
      passed.emplace_back(id, result.waits);
      if (is_done && world_.clean(state)) return end_with({0, now, now});
      if (!is_done && now - begin > kMostUntilDone) result.objection = "it does not finish";
      if (is_done && now - done_at > most_until_clean) {
        result.objection = "something is left over: an aggregator held, or a rank detached";
      }
      if (!result.objection.empty()) return result;
    }
    const Cluster::TimeId before = state.now;
    result.objection = world_.make(next_move(state), state);
    if (!result.objection.empty()) return result;
    if (state.now != before && done_at == kNever) ++result.waits;
  }
}

std::vector<Move> Drainer::moves_of(State state, std::size_t most) {
  std::vector<Move> moves;
  state.left = {};
  while (moves.size() < most && !(world_.done(state) && state.packets.empty())) {
    moves.push_back(next_move(state));
    if (!world_.make(moves.back(), state).empty()) break;
  }
  return moves;
}

}  // namespace atp::explore
