#include "atp/core/placement.h"

namespace atp {

IndexMap::IndexMap(const Placement& placement, const JobKey& job, std::uint16_t stream,
                   std::uint32_t wmax)
    : indices_(wmax) {
  for (std::uint32_t slot = 0; slot < wmax; ++slot) {
    indices_[slot] = placement.first_index(job, stream, wmax, slot);
  }
}

}  // namespace atp
