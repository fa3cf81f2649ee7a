#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>

#include "atp/base/rank_set.h"
#include "atp/base/time.h"

namespace atp {

// Finds the rank that the others wait for most of the time, though never for long: it computes
// longer, or its host is busy, and nothing fails. Longer waits are reported one by one
// (EventKind::kWaiting) and do not count here.
class SlowRank {
 public:
  // The minimum time over which waits are measured.
  static constexpr Duration kWindow = std::chrono::seconds(10);
  static constexpr Duration kLongWait = std::chrono::seconds(1);

  struct Found {
    Rank rank = 0;
    Duration waited{};  // out of `window`
    Duration window{};
  };

  using Waits = std::map<Rank, Duration>;

  explicit SlowRank(Rank self) : self_(self) {}

  // `missing`: the ranks that the worker waits for now. Each slow rank is returned once.
  std::optional<Found> observe(Instant now, const RankSet& missing);
  // All waits for a single other rank so far, long ones included, by rank; null before the first.
  const std::shared_ptr<const Waits>& waits() const { return waits_; }

 private:
  std::optional<Found> end_wait(Instant now);

  Rank self_;
  std::optional<Rank> rank_;  // awaited since then
  Instant since_{};
  std::optional<Instant> window_begin_;
  Waits waited_;  // in the window
  RankSet found_;
  std::shared_ptr<const Waits> waits_;  // replaced by each wait, so that a reader may keep it
};

}  // namespace atp
