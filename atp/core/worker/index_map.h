#pragma once

#include <cstdint>
#include <vector>

#include "atp/core/placement.h"
#include "atp/wire/packet_view.h"

// Which aggregator each slot of a stream uses; slot = sequence mod Wmax (docs/protocol.md §5,
// *Index*). It starts with the job's placement, and changes only by the next index that the
// PARAMETER of the slot's last sequence carried: no worker sends s + Wmax before it has the
// PARAMETER of s, so all workers change at the same sequence (H22).

namespace atp {

class IndexMap {
 public:
  IndexMap() = default;
  IndexMap(const Placement& placement, const JobKey& job, std::uint16_t stream, std::uint32_t wmax);

  std::uint32_t at(std::uint64_t sequence) const { return indices_[slot(sequence)]; }
  // The PARAMETER of `sequence` said where sequence + Wmax goes.
  void set_next(std::uint64_t sequence, std::uint32_t index) { indices_[slot(sequence)] = index; }

  bool operator==(const IndexMap&) const = default;

 private:
  std::size_t slot(std::uint64_t sequence) const { return sequence & (indices_.size() - 1); }

  std::vector<std::uint32_t> indices_;
};

}  // namespace atp
