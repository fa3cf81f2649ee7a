#pragma once

#include <array>
#include <string>
#include <string_view>

#include "atp/base/result.h"
#include "atp/config/interconnect/interconnect_file.h"
#include "atp/config/interconnect/nvidia_matrix.h"

// `nvidia-smi topo -m` as levels. The program says which GPUs are near each other and not how fast
// they are joined, so bandwidths come from a table that the user may change.
//
// GPUs that a class of links joins form groups, the groups of the next class hold them, and so on
// upwards: that is a tree, and when its groups of one kind have equal sizes it is levels. NVLinks
// between all of a group are a switch when one GPU could not have that many links, otherwise direct
// links. A machine that is no such tree becomes one level with the matrix of its pairs: of direct
// links if there are NVLinks (the cube of eight V100, say), else a switch, for a GPU has one slot.

namespace atp {

// Of one link, per direction, in bytes per second; by GpuLink. NVLink 2 to 4 have 25 GB/s a link,
// NVLink 5 has 50; PCIe 4.0 x16 has 32 GB/s less its overhead; between sockets it varies widely.
struct GpuLinkBandwidths {
  std::array<double, kGpuLinkKinds> bytes_per_second{25e9, 32e9, 32e9, 32e9, 32e9, 20e9};
  double of(const GpuPath& path) const;
};

Result<Imported> import_nvidia_topology(std::string_view text, const std::string& file,
                                        const GpuLinkBandwidths& bandwidths = {});

}  // namespace atp
