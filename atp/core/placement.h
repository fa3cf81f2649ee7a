#pragma once

#include <cstdint>
#include <vector>

#include "atp/wire/packet_view.h"

// Where fragments are aggregated (docs/protocol.md §5, *Index*). Worker and server compute it alike
// from what the JOIN_ACK said, since an identity has one index.

namespace atp {

// Before any PARAMETER has moved them.
struct Placement {
  // 0: by a hash of job, incarnation, stream and slot. Else one after another through so many
  // aggregators, for comparison with it (paper §5.4.2).
  std::uint16_t linear_aggregators = 0;

  // Of a slot of a stream, slot = sequence mod Wmax.
  std::uint32_t first_index(const JobKey& job, std::uint16_t stream, std::uint32_t wmax,
                            std::uint32_t slot) const {
    if (linear_aggregators == 0) {
      return atp_initial_index(job.job, job.incarnation, stream, slot);
    }
    return atp_linear_index(stream * wmax + slot, linear_aggregators);
  }
  bool operator==(const Placement&) const = default;
};

// Which aggregator each slot of a stream uses; slot = sequence mod Wmax. It starts with the job's
// placement, and changes only by the next index that the PARAMETER of the slot's last sequence
// carried: no worker sends s + Wmax before it has the PARAMETER of s, so all workers change at the
// same sequence (H22).
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
