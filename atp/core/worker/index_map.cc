#include "atp/core/worker/index_map.h"

namespace atp {

IndexMap::IndexMap(const JobKey& job, std::uint16_t stream, std::uint32_t wmax) : indices_(wmax) {
  for (std::uint32_t slot = 0; slot < wmax; ++slot) {
    indices_[slot] = atp_initial_index(job.job, job.incarnation, stream, slot);
  }
}

}  // namespace atp
