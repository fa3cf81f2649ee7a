#pragma once

#include <cstdint>

#include "atp/wire/packet_view.h"

// Where fragments are aggregated before any PARAMETER has moved them (docs/protocol.md §5,
// *Index*). Worker and server compute it alike from what the JOIN_ACK said, since an identity has
// one index.

namespace atp {

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

}  // namespace atp
