#include "atp/core/worker/aggregator_room.h"

#include <algorithm>

#include "atp/wire/packet.h"

namespace atp {

// What collided with the old part says how much of the new one can be used, so that nobody has to
// find it again when a job comes or ends.
void AggregatorRoom::change_part(std::uint8_t said) {
  const std::uint64_t part = atp_part_of(said);
  const std::uint64_t before = atp_part_of(said_);
  said_ = said;
  if (is_first_) {
    is_first_ = false;
    return set(std::max(fragments_, part / servers_));
  }
  if (before != 0 && bounded()) set((fragments_ * part + before / 2) / before);
}

void AggregatorRoom::set(std::uint64_t fragments) {
  fragments_ = std::max(fragments, kLeast);
  if (fragments_ >= most_) fragments_ = kNoBound;
}

// Nobody says a part: the first answer has come.
void AggregatorRoom::lift() {
  fragments_ = kNoBound;
  is_first_ = false;
}

bool AggregatorRoom::bound(std::uint64_t in_flight) {
  if (most_ == 0) return false;
  // Answers come in trains, and the last ones of an operation leave nothing to send. Neither says
  // that the worker had less in flight when its fragments collided.
  fragments_ = std::max(in_flight + answered_since_send_, kLeast);
  ignored_ = answered_ = collided_ = clean_rounds_ = 0;
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
  std::uint64_t after = before - std::min(before, collided_);
  if (collided_ > 0) {
    ignored_ = in_flight;
    clean_rounds_ = 0;
  } else if (++clean_rounds_ >= (said_ == 0 ? kCleanRoundsWithoutPart : kCleanRounds)) {
    ++after;
    clean_rounds_ = 0;
  }
  // With more in flight than this, the aggregators would be so full that many fragments collide.
  const std::uint64_t floor = std::uint64_t{atp_part_of(said_)} * 5 / (8 * servers_);
  set(std::max(after, floor));
  answered_ = 0;
  collided_ = 0;
  return fragments_ < before;
}

}  // namespace atp
