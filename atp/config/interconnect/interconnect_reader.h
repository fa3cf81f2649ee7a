#pragma once

#include <cstdint>
#include <vector>

#include "atp/config/text/yaml.h"
#include "atp/planner/interconnect.h"

// The keys of a cluster file that describe the planner's interconnect (interconnect_file.h has an
// example). A level's key `aggregation` describes what its switch can sum, and where the parameter
// servers are:
//
//   payload_bytes: 1400         per packet; header_bytes come on top
//   header_bytes: 78            everything else per packet on the wire, Ethernet included
//   wire_bytes_per_value: 4     per tensor value in a packet; absent: that of the tensor's element
//   slots: 65536                aggregators of the switch; absent: unlimited
//   window: 256                 fragments in flight per group; required with slots
//   servers: dedicated          on separate hosts; or colocated: on the workers' machines
//   shared_by: 2                units of this level that share the servers; absent: 1
//   uplink_sums: 1              sums over the fullest uplink, one group per unit; absent: 0
//   server_hosts: 2             absent: enough never to limit or, if colocated, every worker
//   server_bandwidth: 100 Gbit/s per direction   per dedicated host; absent: that of a child
//   switch_bandwidth: 100 Gbit/s per direction   of the switch's host; absent: never the bottleneck
//   burst: 256                  fragments that a rank sends before results return; absent: few
//   stream_share: 0.956         what rings get of the bandwidth, for data; absent: all
//   fallback_share: 0.01        share of the fragments; absent: computed from slots and window

namespace atp {

// Reads `levels`, from top to bottom. All of these throw FileError.
std::vector<planner::Level> read_levels(const YamlValue& value);

// Read data on individual devices rather than levels: pair by pair (`point_to_point`), or measured
// mesh by mesh (`measured`).
planner::PointToPointMatrix read_matrix(const YamlValue& value, std::uint32_t devices);
std::vector<planner::MeasuredMesh> read_measured(const YamlValue& value, std::uint32_t devices);

// Reads `device`, the speed of one device.
planner::Device read_device(const YamlValue& value);

}  // namespace atp
