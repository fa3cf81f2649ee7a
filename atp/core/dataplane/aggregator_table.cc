// The arithmetic of a user space switch: four loops over the values, one for each data operation of
// the pipeline. They stand apart from it because it is shared with engines that add in their own
// way.
#include "atp/core/dataplane/aggregator_table.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "atp/base/check.h"
#include "atp/wire/values.h"

bool operator==(const atp_aggregator& a, const atp_aggregator& b) {
  static_assert(std::has_unique_object_representations_v<atp_aggregator>);
  return std::memcmp(&a, &b, sizeof a) == 0;
}

namespace atp {
namespace {

ATP_VALUE_LOOP void store(std::uint32_t* __restrict sum, const std::uint8_t* __restrict in,
                          std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] = load_value(in + 4 * i);
}

ATP_VALUE_LOOP void add(std::uint32_t* __restrict sum, const std::uint8_t* __restrict in,
                        std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += load_value(in + 4 * i);
}

ATP_VALUE_LOOP void add_load(std::uint32_t* __restrict sum, const std::uint8_t* __restrict in,
                             std::uint8_t* __restrict out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    sum[i] += load_value(in + 4 * i);
    store_value(out + 4 * i, sum[i]);
  }
}

ATP_VALUE_LOOP void load(const std::uint32_t* __restrict sum, std::uint8_t* __restrict out,
                         std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) store_value(out + 4 * i, sum[i]);
}

}  // namespace

AggregatorTable::AggregatorTable(std::uint32_t aggregators, std::uint16_t max_value_count)
    : max_value_count_(max_value_count),
      aggregators_(aggregators, atp_aggregator{}),
      values_(std::size_t{aggregators} * max_value_count) {
  ATP_CHECK(aggregators > 0 && max_value_count > 0);
}

std::span<std::uint32_t> AggregatorTable::values_of(std::uint32_t slot, std::size_t bytes) {
  const std::size_t count = bytes / 4;
  ATP_CHECK(slot < aggregators_.size() && count <= max_value_count_);
  return {values_.data() + std::size_t{slot} * max_value_count_, count};
}

void AggregatorTable::apply(atp_data_op operation, std::uint32_t slot,
                            std::span<const std::uint8_t> in, std::span<std::uint8_t> out) {
  switch (operation) {
    case ATP_DATA_NONE: break;
    case ATP_DATA_STORE: {
      const auto sum = values_of(slot, in.size());
      store(sum.data(), in.data(), sum.size());
      break;
    }
    case ATP_DATA_ADD: {
      const auto sum = values_of(slot, in.size());
      add(sum.data(), in.data(), sum.size());
      break;
    }
    case ATP_DATA_ADD_LOAD: {
      ATP_CHECK(in.size() == out.size());
      const auto sum = values_of(slot, in.size());
      add_load(sum.data(), in.data(), out.data(), sum.size());
      break;
    }
    case ATP_DATA_LOAD: {
      const auto sum = values_of(slot, out.size());
      load(sum.data(), out.data(), sum.size());
      break;
    }
  }
}

std::size_t AggregatorTable::in_use() const {
  return static_cast<std::size_t>(
      std::count_if(aggregators_.begin(), aggregators_.end(),
                    [](const atp_aggregator& a) { return a.state == ATP_AGGREGATING; }));
}

bool AggregatorTable::operator==(const AggregatorTable& other) const {
  if (max_value_count_ != other.max_value_count_ || aggregators_ != other.aggregators_) {
    return false;
  }
  for (std::size_t slot = 0; slot < aggregators_.size(); ++slot) {
    const auto at = static_cast<std::ptrdiff_t>(slot * max_value_count_);
    const auto count = static_cast<std::ptrdiff_t>(aggregators_[slot].value_count);
    const auto mine = values_.begin() + at;
    if (!std::equal(mine, mine + count, other.values_.begin() + at)) return false;
  }
  return true;
}

}  // namespace atp
