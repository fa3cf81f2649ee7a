#pragma once

#include <cstdint>
#include <vector>

#include "atp/config/text/yaml.h"
#include "atp/planner/interconnect.h"

// The keys of a cluster file that describe the planner's interconnect (cluster_file.h shows one).
// The key `aggregation` of a level says what its switch can sum, and where the parameter servers
// are:
//
//   payload_bytes: 1400         of one packet; with header_bytes the framing
//   header_bytes: 78            all else that a packet takes on the wire, Ethernet included
//   wire_bytes_per_value: 4     of one tensor value in a packet; absent: as the tensor's element
//   slots: 65536                aggregators of the switch; absent: never too few
//   window: 256                 fragments that one group has in flight; needed with slots
//   servers: dedicated          hosts of their own; or co-located: on the workers' machines
//   shared_by: 2                units of this level that the servers serve; absent: 1
//   uplink_sums: 1              sums over a unit's fullest uplink to servers elsewhere; absent: 0
//   server_hosts: 2             absent: so many that they never limit, or every worker
//   server_bandwidth: 100 Gbit/s per direction   of one dedicated host; absent: as a child's
//   fallback_share: 0.01        of the fragments; absent: computed from slots and window

namespace atp {

// `levels`, from top to bottom. Like the others, throws FileError.
std::vector<planner::Level> read_levels(const YamlValue& value);

// What is known of single devices rather than levels: pair by pair (`point_to_point`), or what was
// measured mesh by mesh (`measured`).
planner::PointToPointMatrix read_matrix(const YamlValue& value, std::uint32_t devices);
std::vector<planner::MeasuredMesh> read_measured(const YamlValue& value, std::uint32_t devices);

// `device`, what one of the devices computes.
planner::Device read_device(const YamlValue& value);

}  // namespace atp
