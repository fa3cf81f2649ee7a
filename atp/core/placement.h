#pragma once

#include <cstdint>
#include <vector>

#include "atp/wire/packet_view.h"

// Where fragments are aggregated (docs/inside/protocol §5, *Index*). Worker and server compute the
// same index from the JOIN_ACK, since an identity has one index.

namespace atp {

// The initial placement, before any PARAMETER has moved a fragment.
struct Placement {
  // 0: by a hash of job, incarnation, stream and slot. Otherwise one after another through this
  // many aggregators, for comparison with the hash (paper §5.4.2).
  std::uint16_t linear_aggregators = 0;

  // The index of a slot of a stream; slot = sequence mod Wmax.
  std::uint32_t first_index(const JobKey& job, std::uint16_t stream, std::uint32_t wmax,
                            std::uint32_t slot) const {
    if (linear_aggregators == 0) {
      return atp_initial_index(job.job, job.incarnation, stream, slot);
    }
    return atp_linear_index(stream * wmax + slot, linear_aggregators);
  }
  bool operator==(const Placement&) const = default;
};

// The aggregator index of each slot of a stream; slot = sequence mod Wmax. It starts with the job's
// placement and changes only to the next index in the PARAMETER of the slot's last sequence. No
// worker sends s + Wmax before it has the PARAMETER of s, so all workers change at the same
// sequence (H22).
class IndexMap {
 public:
  IndexMap() = default;
  IndexMap(const Placement& placement, const JobKey& job, std::uint16_t stream, std::uint32_t wmax);

  std::uint32_t at(std::uint64_t sequence) const { return indices_[slot(sequence)]; }
  // Notes the index of sequence + Wmax, as in the PARAMETER of `sequence`.
  void set_next(std::uint64_t sequence, std::uint32_t index) { indices_[slot(sequence)] = index; }

  bool operator==(const IndexMap&) const = default;

 private:
  std::size_t slot(std::uint64_t sequence) const { return sequence & (indices_.size() - 1); }

  std::vector<std::uint32_t> indices_;
};

}  // namespace atp
