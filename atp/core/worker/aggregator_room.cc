#include "atp/core/worker/aggregator_room.h"

#include <algorithm>

namespace atp {

// What collided with the old part says how much of the new one can be used, so that nobody has to
// find it again when a job comes or ends.
void AggregatorRoom::scale(std::uint64_t part, std::uint64_t before) {
  fragments_ = std::max((fragments_ * part + before / 2) / before, kLeast);
}

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
    fragments_ = before - std::min(before, collided_);
    ignored_ = in_flight;
    clean_rounds_ = 0;
  } else if (++clean_rounds_ == kCleanRounds) {
    fragments_ = before + 1;
    clean_rounds_ = 0;
  }
  // With more in flight than this, the aggregators would be so full that many fragments collide.
  const std::uint64_t floor = part_ * 5 / (8 * servers_);
  fragments_ = std::max({fragments_, kLeast, floor});
  if (fragments_ >= most_) fragments_ = kNoBound;
  answered_ = 0;
  collided_ = 0;
  return fragments_ < before;
}

}  // namespace atp
