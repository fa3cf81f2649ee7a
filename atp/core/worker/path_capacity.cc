#include "atp/core/worker/path_capacity.h"

#include <utility>

namespace atp {

void PathCapacity::on_answer(Instant now, std::uint64_t bytes) {
  round_bytes_ += bytes;
  if (shortest() == Duration::max()) return;
  const Duration elapsed = now - round_begin_;
  if (elapsed < kRoundTrips * shortest()) return;
  // After a pause nothing is known about the round.
  if (elapsed < 8 * kRoundTrips * shortest()) {
    const std::uint64_t found =
        round_bytes_ * 1'000'000 / static_cast<std::uint64_t>(elapsed.count());
    fastest_ = std::max(fastest_, found);
  }
  if (++rounds_ == kEpochRounds) {
    rounds_ = 0;
    earlier_fastest_ = std::exchange(fastest_, 0);
  }
  round_begin_ = now;
  round_bytes_ = 0;
}

void PathCapacity::on_round_trip(Instant now, Duration time) {
  if (now >= renew_) {
    renew_ = now + kMemory;
    earlier_shortest_ = shortest_;
    shortest_ = Duration::max();
  }
  shortest_ = std::min(shortest_, std::max(time, Duration(1)));
}

std::uint64_t PathCapacity::bytes() const {
  if (shortest() == Duration::max()) return 0;
  return std::max(fastest_, earlier_fastest_) * static_cast<std::uint64_t>(shortest().count()) /
         1'000'000;
}

}  // namespace atp
