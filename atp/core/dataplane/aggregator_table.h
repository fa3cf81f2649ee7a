#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "atp/core/dataplane/pipeline.h"

// The aggregators of a user space switch: the metadata that the pipeline decides on, and the
// values, one flat vector of host-order integers that are added modulo 2^32
// (docs/protocol.md §4). All memory is taken at construction. Values on the wire are big-endian and
// need not be aligned.
//
// Two tables are equal if they would answer every packet alike: what an EMPTY aggregator's values
// once were does not count.

// Beside its type, so that it is found.
bool operator==(const atp_aggregator& a, const atp_aggregator& b);

namespace atp {

class AggregatorTable {
 public:
  AggregatorTable(std::uint32_t aggregators, std::uint16_t max_value_count);

  std::uint32_t size() const { return static_cast<std::uint32_t>(aggregators_.size()); }
  std::uint16_t max_value_count() const { return max_value_count_; }
  atp_aggregator& operator[](std::uint32_t slot) { return aggregators_[slot]; }
  const atp_aggregator& operator[](std::uint32_t slot) const { return aggregators_[slot]; }

  // Runs the data operation of a verdict: `in` are the values that came (not read by LOAD), `out`
  // takes those that leave (written by ADD_LOAD and LOAD only). At most max_value_count() values.
  void apply(atp_data_op operation, std::uint32_t slot, std::span<const std::uint8_t> in,
             std::span<std::uint8_t> out);

  std::size_t in_use() const;

  bool operator==(const AggregatorTable& other) const;

 private:
  std::span<std::uint32_t> values_of(std::uint32_t slot, std::size_t bytes);

  std::uint16_t max_value_count_;
  std::vector<atp_aggregator> aggregators_;
  std::vector<std::uint32_t> values_;  // max_value_count_ for each aggregator
};

}  // namespace atp
