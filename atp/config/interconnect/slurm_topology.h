#pragma once

#include <string>
#include <string_view>

#include "atp/base/result.h"
#include "atp/config/interconnect/interconnect_file.h"

// Slurm's topology.conf (topology/tree) as levels: switches, and a node as a device. For example
//
//   SwitchName=leaf0 Nodes=tux[0-3]
//   SwitchName=leaf1 Nodes=tux[4-7]
//   SwitchName=spine Switches=leaf[0-1]
//
// The file says which switches there are and not how fast their links; LinkSpeed is a number
// without a unit, which Slurm does not read. So bandwidths are usual ones, which the user may
// change.

namespace atp {

// Per direction, in bytes per second.
struct SlurmBandwidths {
  double node = 0;  // 0: a usual one, 100 Gbit/s
  // Of all cables from a leaf switch upwards; those above it have as much for each leaf switch
  // below them. 0: as much as the nodes below together.
  double uplink = 0;
};

Result<Imported> import_slurm_topology(std::string_view text, const std::string& file,
                                       const SlurmBandwidths& bandwidths = {});

}  // namespace atp
