#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "atp/base/result.h"
#include "atp/config/text/file.h"
#include "atp/planner/interconnect.h"

// The cluster file as the planner sees it: one YAML file that describes a cluster to every command
// that needs to know it. It lists racks, hosts, switches and servers (docs/cluster.md; read by
// site/site_reader.h), or has the planner's interconnect, or both:
//
//   name: two racks of four hosts
//   levels:                               # from top to bottom; together they hold all devices
//     - name: rack                        # what a child of this level is
//       count: 2                          # children of one unit, 1 or more
//       kind: switch                      # switch, ring, full, pairs or torus
//       bandwidth: 100 Gbit/s per direction   # of one child's link (or "... both directions")
//       latency: 5 us                     # one way, software included; 0 if absent
//       aggregation:                      # of a switch that sums: see interconnect_reader.h
//         payload_bytes: 1400
//     - {name: host, count: 4, kind: switch, bandwidth: 100 Gbit/s per direction}
//   point_to_point:                       # no two devices are faster, whatever the levels say
//     unit: GB/s per direction
//     rows: [[0, 25], [25, 0]]
//   measured:                             # instead of any model, by mesh, all groups at once
//     - {mesh: [2, 4], dimension1: 1.2 GB/s, dimension2: 4.95 GB/s}
//
// Everything wrong is refused with file, line and key; a key that is unknown too.

namespace atp {

struct Cluster {
  planner::Interconnect interconnect;
  Place levels;  // where the file says how many devices there are
};

// The part of a cluster that a job runs on, as `atp run` has it: hosts in the order of their ranks,
// and ranks on each in place of the file's (0: the file's). Without hosts all that have ranks.
struct ClusterPart {
  std::vector<std::string> hosts;
  std::uint32_t ranks_per_host = 0;
  bool is_whole() const { return hosts.empty() && ranks_per_host == 0; }
};

// `file` is only named in messages. Without `levels` the interconnect follows from the racks.
// Measurements are of the whole cluster, and left out of a part of it.
Result<Cluster> parse_cluster(std::string_view text, const std::string& file,
                              const ClusterPart& part = {});
Result<Cluster> read_cluster(const std::string& path, const ClusterPart& part = {});

// The cluster's devices are the ranks of one tensor-parallel group: refuses another `world_size`,
// unless it is 0 (all devices).
Status check_world_size(const Cluster& cluster, std::uint32_t world_size);

// What another program's description becomes, and what had to be assumed on the way: remarks for
// people, which `atp plan import` writes above the levels as comments.
struct Imported {
  planner::Interconnect interconnect;
  std::vector<std::string> remarks;
};

// A file that reads back as the same interconnect. Each remark becomes a comment above it.
std::string cluster_text(const planner::Interconnect& interconnect,
                         const std::vector<std::string>& remarks);

}  // namespace atp
