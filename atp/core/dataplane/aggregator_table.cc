#include "atp/core/dataplane/aggregator_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "atp/base/check.h"
#include "atp/wire/lanes.h"

bool operator==(const atp_aggregator& a, const atp_aggregator& b) {
  static_assert(std::has_unique_object_representations_v<atp_aggregator>);
  return std::memcmp(&a, &b, sizeof a) == 0;
}

namespace atp {

AggregatorTable::AggregatorTable(std::uint32_t aggregators, std::uint16_t max_value_count)
    : max_value_count_(max_value_count),
      aggregators_(aggregators, atp_aggregator{}),
      held_(aggregators / 64 + 2),
      values_(std::size_t{aggregators} * 4 * max_value_count) {
  ATP_CHECK(aggregators > 0 && max_value_count > 0);
}

std::uint8_t* AggregatorTable::values_of(std::uint32_t slot, std::size_t bytes) {
  const std::size_t room = std::size_t{4} * max_value_count_;
  ATP_CHECK(slot < aggregators_.size() && bytes <= room);
  return values_.data() + slot * room;
}

// Reads the metadata only of places that hold a sum.
PlaceFound AggregatorTable::find_beyond_home(const atp_share& share, std::uint32_t places,
                                             std::uint32_t home, const atp_header& header) const {
  const std::uint32_t before_end = share.first + share.size - home;
  const std::uint32_t count = std::min(places, share.size);
  std::uint32_t held = held_from(home);
  if (count > before_end) {  // the region's first places follow its last one
    const std::uint32_t kept = (1U << before_end) - 1;
    held = (held & kept) | held_from(share.first) << before_end;
  }
  const auto slot_of = [&](std::uint32_t place) {
    return home + place - (place < before_end ? 0 : share.size);
  };
  const std::uint32_t all = (1U << count) - 1;
  held &= all;
  for (std::uint32_t others = held & ~1U; others != 0; others &= others - 1) {
    const std::uint32_t slot = slot_of(static_cast<unsigned>(std::countr_zero(others)));
    if (atp_has_fragment(&aggregators_[slot], &header)) return {slot, home, true};
  }
  if (held == all) return {home, home, false};
  return {slot_of(static_cast<unsigned>(std::countr_one(held))), home, false};
}

std::uint32_t AggregatorTable::next_held(std::uint32_t slot) const {
  if (slot >= size()) return size();
  std::size_t word = slot / 64;
  std::uint64_t left = held_[word] & (~std::uint64_t{0} << (slot % 64));
  while (left == 0) {
    if (++word == held_.size()) return size();
    left = held_[word];
  }
  return static_cast<std::uint32_t>(64 * word + static_cast<unsigned>(std::countr_zero(left)));
}

void AggregatorTable::apply(atp_data_op operation, std::uint8_t kind, std::uint32_t slot,
                            std::span<const std::uint8_t> in, std::span<std::uint8_t> out) {
  switch (operation) {
    case ATP_DATA_NONE: break;
    case ATP_DATA_STORE: store_lanes(kind, values_of(slot, in.size()), in.data(), in.size()); break;
    case ATP_DATA_COMBINE:
      combine_lanes(kind, values_of(slot, in.size()), in.data(), in.size());
      break;
    case ATP_DATA_COMBINE_LOAD:
      ATP_CHECK(in.size() == out.size());
      combine_and_load_lanes(kind, values_of(slot, in.size()), in.data(), out.data(), in.size());
      break;
    case ATP_DATA_LOAD:
      load_lanes(kind, values_of(slot, out.size()), out.data(), out.size());
      break;
  }
}

bool AggregatorTable::operator==(const AggregatorTable& other) const {
  if (max_value_count_ != other.max_value_count_ || aggregators_ != other.aggregators_) {
    return false;
  }
  const std::size_t room = std::size_t{4} * max_value_count_;
  for (std::size_t slot = 0; slot < aggregators_.size(); ++slot) {
    const atp_aggregator& a = aggregators_[slot];
    const std::size_t bytes = std::size_t{a.value_count} * atp_value_bytes(a.kind);
    const std::uint8_t* mine = values_.data() + slot * room;
    if (!std::equal(mine, mine + bytes, other.values_.data() + slot * room)) return false;
  }
  return true;
}

}  // namespace atp
