#include "atp/core/worker/aggregator_room.h"

#include <algorithm>

namespace atp {

bool AggregatorRoom::bound(std::uint64_t in_flight) {
  if (most_ == 0) return false;
  // Answers come in trains, and the last ones of an operation leave nothing to send. Neither says
  // that the worker had less in flight when its fragments collided.
  fragments_ = std::max(in_flight + answered_since_send_, kLeast);
  return true;
}

bool AggregatorRoom::ends_round(bool collided) {
  if (ignored_ > 0) {
    --ignored_;
    return false;
  }
  if (collided) ++collided_;
  return ++answered_ >= fragments_;
}

bool AggregatorRoom::end_round(std::uint64_t in_flight) {
  const std::uint64_t before = fragments_;
  if (collided_ > 0) {
    fragments_ = std::max(before - std::min(before, collided_), kLeast);
    ignored_ = in_flight;
    clean_rounds_ = 0;
  } else if (++clean_rounds_ == kCleanRounds) {
    fragments_ = before + 1 < most_ ? before + 1 : kNoBound;
    clean_rounds_ = 0;
  }
  answered_ = 0;
  collided_ = 0;
  return fragments_ < before;
}

}  // namespace atp
