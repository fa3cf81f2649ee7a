#include "atp/collective/network/slow_rank.h"

#include <utility>

namespace atp {

std::optional<SlowRank::Found> SlowRank::observe(Instant now, const RankSet& missing) {
  std::optional<Rank> rank;
  if (missing.size() == 1 && missing.lowest() != self_) rank = missing.lowest();
  if (rank == rank_) return std::nullopt;
  const std::optional<Found> found = end_wait(now);
  rank_ = rank;
  since_ = now;
  if (!window_begin_) window_begin_ = now;
  return found;
}

std::optional<SlowRank::Found> SlowRank::end_wait(Instant now) {
  if (!rank_) return std::nullopt;
  const Rank rank = *rank_;
  auto waits = waits_ == nullptr ? std::make_shared<Waits>() : std::make_shared<Waits>(*waits_);
  (*waits)[rank] += now - since_;
  waits_ = std::move(waits);
  if (now - since_ < kLongWait) waited_[rank] += now - since_;
  const Duration window = now - *window_begin_;
  if (window < kWindow) return std::nullopt;
  window_begin_ = now;
  const Duration waited = std::exchange(waited_, {})[rank];
  if (2 * waited <= window || found_.contains(rank)) return std::nullopt;
  found_.insert(rank);
  return Found{rank, waited, window};
}

}  // namespace atp
