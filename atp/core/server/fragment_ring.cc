#include "atp/core/server/fragment_ring.h"

#include <algorithm>
#include <bit>

#include "atp/base/check.h"

namespace atp {

FragmentRing::FragmentRing(const Placement& placement, const JobKey& job, std::uint16_t stream,
                           std::uint32_t wmax, std::uint16_t value_count,
                           std::uint64_t first_sequence)
    : wmax_(wmax),
      first_(first_sequence),
      value_count_(value_count),
      fragments_(std::size_t{2} * wmax),
      values_(std::size_t{2} * wmax * 4 * value_count),
      indices_(placement, job, stream, wmax),
      head_(first_sequence),
      completed_end_(first_sequence),
      seen_end_(first_sequence) {
  ATP_CHECK(std::has_single_bit(wmax) && wmax <= 65536);
}

std::size_t FragmentRing::bytes_needed(std::uint32_t wmax, std::uint16_t value_count) {
  return std::size_t{2} * wmax * (sizeof(Fragment) + 4 * std::size_t{value_count}) +
         sizeof(std::uint32_t) * wmax;
}

RingPlace FragmentRing::place(std::uint64_t sequence) const {
  if (sequence < begin()) return RingPlace::kPast;
  // Written so that nothing overflows, whatever sequence arrives.
  if (sequence >= completed_end_ && sequence - completed_end_ >= wmax_) return RingPlace::kFuture;
  return RingPlace::kInside;
}

Fragment& FragmentRing::at(std::uint64_t sequence) {
  ATP_CHECK(place(sequence) == RingPlace::kInside);
  Fragment& fragment = fragments_[slot(sequence)];
  if (!fragment.in_use || fragment.sequence != sequence) {
    fragment = Fragment{};
    fragment.sequence = sequence;
    fragment.in_use = true;
  }
  return fragment;
}

const Fragment* FragmentRing::find(std::uint64_t sequence) const {
  return place(sequence) == RingPlace::kInside && holds(sequence) ? &fragments_[slot(sequence)]
                                                                  : nullptr;
}

std::span<std::uint8_t> FragmentRing::values(std::uint64_t sequence) {
  const std::size_t row = std::size_t{4} * value_count_;
  return {values_.data() + slot(sequence) * row, row};
}

void FragmentRing::saw(std::uint64_t sequence) { seen_end_ = std::max(seen_end_, sequence + 1); }

bool FragmentRing::holds(std::uint64_t sequence) const {
  const Fragment& fragment = fragments_[slot(sequence)];
  return fragment.in_use && fragment.sequence == sequence;
}

void FragmentRing::move_head() {
  while (head_ < completed_end_ && holds(head_) && fragments_[slot(head_)].complete()) ++head_;
}

}  // namespace atp
