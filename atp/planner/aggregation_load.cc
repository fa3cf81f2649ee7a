#include <algorithm>
#include <cmath>
#include <vector>

#include "atp/planner/link_load.h"

// The link loads of in-network aggregation, on the levels whose switches can aggregate.
//
// Consecutive aggregating levels form one tree: the lower switches sum for the upper ones, and the
// servers at the top of the tree sum what the switches cannot. Below, "the units" are the children
// of the tree's top switch that a group spans, s the children of a lower level. With the wire
// factor w * o (bytes per value times framing) and the fallback share phi, a child's link carries
// per group
//     w o [(1 - phi) g + phi 2(s-1)/s],   g = 1, or (s+1)/s if the workers serve,
// because each sum then also passes through the 1/s of the tensor that a worker serves. The link of
// one of n server hosts carries ((1 - phi) + phi units) / n for EACH group of the tree: this, and
// not the workers' links, is why a single server undoes the gain of many small groups. Servers in
// another unit are reached through the units' uplinks, which then carry the sums too.
//
// A switch that is a program on a host receives a tensor from each child and the sum from above,
// and sends as much: s + 1 tensors over that host's link in each direction, for each group.
//
// If that link is the bottleneck, both directions are busy all the time only while few fragments
// are in flight. With a deep queue and no loss a rank's window grows to its maximum, and the ranks
// send a whole window at once. The sums then return through the same queue, behind all gradients,
// and the copies to the children, s per sum, have to wait for them. With Q groups of s children
// in a switch whose link has bandwidth B, and q of them on each child's link of bandwidth b, the
// gradients of a burst arrive in time q/b, take Q s/B to pass, and one sum passes for every s of
// them; the other sums take Q s/B to leave as copies. Per byte of a burst and a group that is
//     Q s/B + (Q s/B - (1 - 1/s) q/b),
// and so (1 - 1/s) (Q s/B - q/b) more than the Q (s + 1)/B of a link that is busy both ways.

namespace atp::planner {
namespace {

struct Tree {
  std::size_t top = 0;
  double wire = 1;      // w * o
  double passing = 0;   // exchanged by the levels above, through the servers
  double children = 1;  // s up to here
  bool is_open = false;
};

// Server hosts that share the workers' links, and the load of each from all groups together.
struct ColocatedHosts {
  std::size_t top = 0;
  double hosts = 0;
  double load = 0;
};
using Serving = std::vector<ColocatedHosts>;

double wire_factor(const Aggregation& aggregation, double bytes_per_element) {
  const double value = aggregation.wire_bytes_per_value > 0
                           ? aggregation.wire_bytes_per_value / bytes_per_element
                           : 1;
  const double packet = 1.0 * aggregation.payload_bytes + aggregation.header_bytes;
  return value * packet / aggregation.payload_bytes;
}

// Groups whose packets meet in one switch: those with members in one of its children, times the
// sets of siblings.
double groups_in_switch(const GroupLevel& group) { return group.sharing * group.other; }

double fallback_share(const Aggregation& aggregation, const GroupLevel& group) {
  if (aggregation.fallback_share) return *aggregation.fallback_share;
  if (aggregation.slots == 0) return 0;
  const double in_flight = groups_in_switch(group) * aggregation.window;
  return std::max(0.0, 1 - aggregation.slots / in_flight);
}

bool workers_serve(const Aggregation& aggregation) {
  return aggregation.placement == ServerPlacement::kColocated && aggregation.server_hosts == 0;
}

void load_servers(const Interconnect& interconnect, const GroupGeometry& geometry, const Tree& tree,
                  AllReduceCost& cost, Serving& serving) {
  const Level& level = interconnect.levels[tree.top];
  const GroupLevel& group = geometry.levels[tree.top];
  const Aggregation& aggregation = *level.aggregation;
  const double phi = fallback_share(aggregation, group);
  const double of_group = tree.wire * (1 - phi + phi * group.own) + tree.passing;
  if (tree.top > 0 && aggregation.uplink_sums > 0) {
    // With servers in other units, the sums leave this one and come back.
    const double groups = groups_in_switch(group);
    const double load = groups * of_group * aggregation.uplink_sums;
    cost.links.push_back({LinkRole::kUplink, tree.top - 1, groups, load,
                          load / interconnect.levels[tree.top - 1].bandwidth.value});
    cost.latency_s += 2 * interconnect.levels[tree.top - 1].latency_s;
  }
  if (aggregation.server_hosts == 0) return;
  const double groups = groups_in_switch(group) * aggregation.shared_by;
  const double load = groups * of_group / aggregation.server_hosts;
  if (aggregation.placement == ServerPlacement::kColocated) {
    serving.push_back({tree.top, 1.0 * aggregation.server_hosts, load});
    return;
  }
  const BytesPerSecond bandwidth =
      aggregation.server_bandwidth.is_positive() ? aggregation.server_bandwidth : level.bandwidth;
  cost.links.push_back({LinkRole::kServer, tree.top, groups, load, load / bandwidth.value});
}

// Adds to a child's link what its servers receive from members outside of it. The servers are
// spread over the children of the level as evenly as possible.
void add_serving(const Interconnect& interconnect, const Serving& serving, std::size_t index,
                 AllReduceCost& cost) {
  const Level& level = interconnect.levels[index];
  for (LinkLoad& link : cost.links) {
    if (link.level != index || link.role != LinkRole::kUplink) continue;
    for (const ColocatedHosts& hosts : serving) {
      double children = 1;
      for (std::size_t above = hosts.top; above <= index; ++above) {
        children *= interconnect.levels[above].count;
      }
      link.load += hosts.load * std::ceil(hosts.hosts / children);
      link.role = LinkRole::kServer;
    }
    link.seconds_per_byte = link.load / level.bandwidth.value;
  }
}

// How much longer a window that is sent at once takes on the link of a switch's host.
Burst burst_of(const Level& level, const GroupLevel& group, const Tree& tree) {
  const Aggregation& aggregation = *level.aggregation;
  const double s = group.own;
  const double of_switch = groups_in_switch(group) * s / aggregation.switch_bandwidth.value;
  const double of_child = group.sharing / level.bandwidth.value;
  if (of_switch <= of_child) return {};  // the children's links are the bottleneck
  // `wire` is packet bytes per tensor byte.
  const double packet = 1.0 * aggregation.payload_bytes + aggregation.header_bytes;
  return {aggregation.burst * packet / tree.wire, tree.wire * (1 - 1 / s) * (of_switch - of_child)};
}

// Adds what a switch on a host sends: the sum upwards, or everything that falls back, and a copy to
// each child.
void load_switch(const Interconnect& interconnect, const GroupGeometry& geometry, std::size_t index,
                 const Tree& tree, AllReduceCost& cost) {
  const Aggregation& aggregation = *interconnect.levels[index].aggregation;
  if (!aggregation.switch_bandwidth.is_positive()) return;
  const GroupLevel& group = geometry.levels[index];
  const double phi = fallback_share(aggregation, group);
  const double groups = groups_in_switch(group);
  const double load = groups * tree.wire * (group.own + 1 - phi + phi * group.own);
  cost.links.push_back({LinkRole::kSwitchHost, index, groups, load,
                        load / aggregation.switch_bandwidth.value,
                        burst_of(interconnect.levels[index], group, tree)});
}

// Adds one level of a tree; returns the load of one group on a child's link.
double aggregating_step(const Interconnect& interconnect, const GroupGeometry& geometry,
                        std::size_t index, Tree& tree, AllReduceCost& cost) {
  const Level& level = interconnect.levels[index];
  const GroupLevel& group = geometry.levels[index];
  tree.children *= group.own;
  const double s = tree.children;
  const double phi = fallback_share(*level.aggregation, group);
  const bool serve = workers_serve(*interconnect.levels[tree.top].aggregation);
  const double sums = serve ? (s + 1) / s : 1;
  double leaving = tree.wire * ((1 - phi) * sums + phi * 2 * (s - 1) / s);
  if (serve) leaving += tree.passing / s;
  cost.fallback_share = std::max(cost.fallback_share, phi);
  const double load = leaving * group.sharing;
  cost.links.push_back(
      {LinkRole::kUplink, index, group.sharing, load, load / level.bandwidth.value});
  return leaving;
}

}  // namespace

AllReduceCost aggregating_all_reduce(const Interconnect& interconnect,
                                     const GroupGeometry& geometry, double bytes_per_element) {
  AllReduceCost cost;
  cost.collective = Collective::kInNetwork;
  Tree tree;
  Serving serving;
  double passing = 0, tree_latency = 0;
  for (std::size_t index = 0; index < geometry.levels.size(); ++index) {
    const Level& level = interconnect.levels[index];
    const GroupLevel& group = geometry.levels[index];
    if (!level.aggregation || group.own == 1) {
      // A level that the group does not split only forwards, so a tree continues below it.
      if (group.own > 1) tree.is_open = false;
      // The switch that forwards is a program on a host like those that sum.
      if (level.aggregation && tree.is_open) load_switch(interconnect, geometry, index, tree, cost);
      passing = hierarchical_step(interconnect, geometry, index, passing, cost);
    } else {
      if (!tree.is_open) {
        cost.latency_s += tree_latency;
        tree_latency = 0;
        tree = {.top = index,
                .wire = wire_factor(*level.aggregation, bytes_per_element),
                .passing = passing,
                .is_open = true};
        load_servers(interconnect, geometry, tree, cost, serving);
      }
      load_switch(interconnect, geometry, index, tree, cost);
      passing = aggregating_step(interconnect, geometry, index, tree, cost);
      // Up, to a server, back and down: two round trips.
      tree_latency = std::max(tree_latency, 4 * level.latency_s);
    }
    add_serving(interconnect, serving, index, cost);
  }
  cost.latency_s += tree_latency;
  return cost;
}

}  // namespace atp::planner
