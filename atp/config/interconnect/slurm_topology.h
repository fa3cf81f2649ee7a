#pragma once

#include <string>
#include <string_view>

#include "atp/base/result.h"
#include "atp/config/interconnect/interconnect_file.h"

// Imports Slurm's topology.conf (topology/tree) as levels of switches, with one device per node.
// For example
//
//   SwitchName=leaf0 Nodes=tux[0-3]
//   SwitchName=leaf1 Nodes=tux[4-7]
//   SwitchName=spine Switches=leaf[0-1]
//
// The file contains no bandwidths: LinkSpeed is a number without a unit that Slurm ignores. So
// typical ones are used, which the user may change.

namespace atp {

// In bytes per second, per direction.
struct SlurmBandwidths {
  double node = 0;  // 0: the default, 100 Gbit/s
  // Of all links above a leaf switch together. A higher switch has this much per leaf switch below
  // it. 0: as much as the nodes below together.
  double uplink = 0;
};

Result<Imported> import_slurm_topology(std::string_view text, const std::string& file,
                                       const SlurmBandwidths& bandwidths = {});

}  // namespace atp
