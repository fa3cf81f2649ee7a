#pragma once

#include <array>
#include <string>
#include <string_view>

#include "atp/base/result.h"
#include "atp/config/interconnect/gpu_levels.h"
#include "atp/config/interconnect/nvidia_matrix.h"

// Imports `nvidia-smi topo -m`. Its output shows how GPUs are connected but not how fast, so
// bandwidths come from a table that the user may change.

namespace atp {

// Bytes per second per link and direction, by GpuLink. NVLink 2 to 4 have 25 GB/s per link, NVLink
// 5 has 50; PCIe 4.0 x16 has 32 GB/s less its overhead; links between sockets vary widely.
struct GpuLinkBandwidths {
  std::array<double, kGpuLinkKinds> bytes_per_second{25e9, 32e9, 32e9, 32e9, 32e9, 20e9};
  double of(GpuLink link) const { return bytes_per_second[static_cast<std::size_t>(link)]; }
};

Result<ImportedMachine> import_nvidia_topology(std::string_view text, const std::string& file,
                                               const GpuLinkBandwidths& bandwidths = {});

}  // namespace atp
