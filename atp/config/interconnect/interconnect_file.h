#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "atp/base/result.h"
#include "atp/config/text/file.h"
#include "atp/planner/interconnect.h"

// The planner's view of the cluster file, the YAML file that describes a cluster to every command.
// It lists racks, hosts, switches and servers (docs/use/cluster.md; read by site/site_reader.h), or
// describes the planner's interconnect, or both:
//
//   name: two racks of four hosts
//   levels:                               # from top to bottom
//     - name: rack                        # what a child of this level is called
//       count: 2                          # children per unit, 1 or more
//       kind: switch                      # switch, ring, full, pairs or torus
//       bandwidth: 100 Gbit/s per direction   # per child's link (or "... both directions")
//       latency: 5 us                     # one way, software included; 0 if absent
//       aggregation:                      # for a switch that sums: see interconnect_reader.h
//         payload_bytes: 1400
//     - {name: host, count: 4, kind: switch, bandwidth: 100 Gbit/s per direction}
//   point_to_point:                       # limits per pair of devices, besides the levels
//     unit: GB/s per direction
//     rows: [[0, 25], [25, 0]]
//   measured:                             # replaces the model; per mesh, all groups at once
//     - {mesh: [2, 4], dimension1: 1.2 GB/s, dimension2: 4.95 GB/s}
//
// Every error, unknown keys included, is reported with file, line and key.

namespace atp {

struct Cluster {
  planner::Interconnect interconnect;
  Place levels;  // where the file defines the number of devices
};

// The part of a cluster that a job runs on, as in `atp run`: the hosts in rank order (none: all
// that have ranks), and the ranks per host (0: as in the file).
struct ClusterPart {
  std::vector<std::string> hosts;
  std::uint32_t ranks_per_host = 0;
  bool is_whole() const { return hosts.empty() && ranks_per_host == 0; }
};

// `file` is used only in messages. Without `levels` the interconnect is derived from the racks.
// Measurements cover the whole cluster, so a part ignores them.
Result<Cluster> parse_cluster(std::string_view text, const std::string& file,
                              const ClusterPart& part = {});
Result<Cluster> read_cluster(const std::string& path, const ClusterPart& part = {});

// The cluster's devices are the ranks of one tensor-parallel group: refuses any other number of
// `ranks` except 0 (all devices).
Status check_ranks(const Cluster& cluster, std::uint32_t ranks);

}  // namespace atp
