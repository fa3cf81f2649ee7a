#include "atp/core/worker/index_map.h"

namespace atp {

std::uint32_t initial_index(const JobKey& job, std::uint16_t stream, std::uint32_t slot) {
  const std::uint32_t place = std::uint32_t{stream} * 65536U + slot;
  return atp_fmix32(atp_fmix32(atp_fmix32(job.job) ^ job.incarnation) ^ place);
}

IndexMap::IndexMap(const JobKey& job, std::uint16_t stream, std::uint32_t wmax) : indices_(wmax) {
  for (std::uint32_t slot = 0; slot < wmax; ++slot) {
    indices_[slot] = initial_index(job, stream, slot);
  }
}

}  // namespace atp
