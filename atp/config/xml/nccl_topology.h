#pragma once

#include <string>
#include <string_view>

#include "atp/base/result.h"
#include "atp/config/interconnect/gpu_levels.h"

// Imports the topology that NCCL writes to the file named by NCCL_TOPO_DUMP_FILE: NUMA nodes (cpu),
// below them PCIe devices (pci) with the GPUs' NVLinks and the network cards. For example
//
//   <system version="1">
//     <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" …>
//       <pci busid="0000:18:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
//         <gpu dev="0" sm="90" rank="0">
//           <nvlink target="0000:05:00.0" count="18" tclass="0x068000"/>
//
// Unlike `nvidia-smi topo -m` it has the speeds of PCIe and network cards, and shows where an
// NVLink ends: at a GPU or at a switch.

namespace atp {

// In bytes per second, per direction. 0: the one in the file, or a typical one.
struct NcclBandwidths {
  double nvlink = 0;  // of one NVLink; 0: by the GPU's compute capability
  double pcie = 0;    // of every PCIe link; 0: as in the file
  double sys = 0;     // from a NUMA node to the others; 0: 20 GB/s
};

Result<ImportedMachine> import_nccl_topology(std::string_view text, const std::string& file,
                                             const NcclBandwidths& bandwidths = {});

}  // namespace atp
