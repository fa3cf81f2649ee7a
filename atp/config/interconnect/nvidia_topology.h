#pragma once

#include <array>
#include <string>
#include <string_view>

#include "atp/base/result.h"
#include "atp/config/interconnect/interconnect_file.h"
#include "atp/config/interconnect/nvidia_matrix.h"

// Imports `nvidia-smi topo -m` as levels. Its output shows how GPUs are connected but not how fast,
// so bandwidths come from a table that the user may change.
//
// GPUs connected by one class of links form groups, and these form the groups of the next class,
// and so on. If all groups of a class have the same size, this tree becomes levels. A group fully
// connected by NVLinks becomes a switch if a GPU could not have that many links, otherwise direct
// links. Any other machine becomes one level with a matrix of its pairs: direct links if there are
// NVLinks (such as the cube of eight V100), else a switch, because each GPU has one slot.

namespace atp {

// Bytes per second per link and direction, by GpuLink. NVLink 2 to 4 have 25 GB/s per link, NVLink
// 5 has 50; PCIe 4.0 x16 has 32 GB/s less its overhead; links between sockets vary widely.
struct GpuLinkBandwidths {
  std::array<double, kGpuLinkKinds> bytes_per_second{25e9, 32e9, 32e9, 32e9, 32e9, 20e9};
  double of(const GpuPath& path) const;
};

Result<Imported> import_nvidia_topology(std::string_view text, const std::string& file,
                                        const GpuLinkBandwidths& bandwidths = {});

}  // namespace atp
