#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "atp/core/dataplane/pipeline.h"

// The aggregators of a user space switch: the metadata on which the pipeline decides, and the
// values in one flat vector of lanes (wire/lanes.h). All memory is allocated at construction.
//
// Two tables are equal if they would answer every packet in the same way, so the stale values of an
// EMPTY aggregator do not count.

// In the namespace of its type, so that lookup finds it.
bool operator==(const atp_aggregator& a, const atp_aggregator& b);

namespace atp {

constexpr std::uint32_t kMostPlaces = 16;  // of a fragment

// The aggregators that a packet concerns, as slots (docs/inside/protocol §4, *Places*, rule 3).
struct PlaceFound {
  std::uint32_t slot = 0;  // the one to decide on
  std::uint32_t home = 0;
  bool has = false;  // the slot has the packet's fragment
};

class AggregatorTable {
 public:
  AggregatorTable(std::uint32_t aggregators, std::uint16_t max_value_count);

  std::uint32_t size() const { return static_cast<std::uint32_t>(aggregators_.size()); }
  std::uint16_t max_value_count() const { return max_value_count_; }
  atp_aggregator& operator[](std::uint32_t slot) { return aggregators_[slot]; }
  const atp_aggregator& operator[](std::uint32_t slot) const { return aggregators_[slot]; }

  // Looks among the first `places` of the packet's fragment, at most kMostPlaces. If the region is
  // empty, what it finds means nothing.
  PlaceFound find(const atp_share& share, std::uint32_t places, const atp_header& header) const {
    const std::uint32_t home = atp_home(&share, header.aggregator_index, header.tenant);
    if (atp_has_fragment(&aggregators_[home], &header)) return {home, home, true};
    // The bitmap tells which places are free: all of them, as a rule.
    const std::uint32_t before_end = share.first + share.size - home;
    if (places <= before_end && (held_from(home) & ((1U << places) - 1)) == 0) {
      return {home, home, false};
    }
    return find_beyond_home(share, places, home, header);
  }

  // Which aggregators hold a sum, in a bitmap: the metadata of a large table does not fit into the
  // caches, so a sweep that read the state of each would stop the switch for milliseconds.
  void note_held(std::uint32_t slot, bool held) {
    const std::uint64_t bit = std::uint64_t{1} << (slot % 64);
    held_[slot / 64] = held ? held_[slot / 64] | bit : held_[slot / 64] & ~bit;
  }
  // The first one from this slot on that holds a sum; size() if there is none.
  std::uint32_t next_held(std::uint32_t slot) const;

  // Runs the data operation of a verdict. `in`: the incoming values (LOAD does not read them);
  // `out`: the outgoing values (only COMBINE_LOAD and LOAD write them). At most 4·max_value_count()
  // bytes, in lanes as the fragment's kind says.
  void apply(atp_data_op operation, std::uint8_t kind, std::uint32_t slot,
             std::span<const std::uint8_t> in, std::span<std::uint8_t> out);

  bool operator==(const AggregatorTable& other) const;

 private:
  PlaceFound find_beyond_home(const atp_share& share, std::uint32_t places, std::uint32_t home,
                              const atp_header& header) const;
  // Of 32 slots from this one on, which hold a sum.
  std::uint32_t held_from(std::uint32_t slot) const {
    const std::uint64_t low = held_[slot / 64] >> (slot % 64);
    const std::uint64_t high = held_[slot / 64 + 1] << 1 << (63 - slot % 64);
    return static_cast<std::uint32_t>(low | high);
  }
  std::uint8_t* values_of(std::uint32_t slot, std::size_t bytes);

  std::uint16_t max_value_count_;
  std::vector<atp_aggregator> aggregators_;
  std::vector<std::uint64_t> held_;   // by slot, a bit each, and a word more
  std::vector<std::uint8_t> values_;  // 4·max_value_count_ per aggregator
};

}  // namespace atp
