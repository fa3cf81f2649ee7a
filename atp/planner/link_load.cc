#include "atp/planner/link_load.h"

#include <algorithm>

#include "atp/planner/point_to_point.h"

// The link loads of rings, and of each level of a hierarchical all-reduce. Aggregation is in
// aggregation_load.cc.

namespace atp::planner {
namespace {

// The load on the direct links of a ring, torus, full or pairs level when siblings run a ring. In a
// "ring of volume c" every hop carries c times the tensor, half in each direction.
//
// Returns the load on the fullest link per unit of c, from all groups that share it. The hops
// either return to the first sibling (is_closed) or end at the last one, because the ring continues
// in another unit.
double ring_hop_load(const Level& level, const GroupLevel& group, bool is_closed) {
  // With two children both directions share one link, unless the ring only passes through.
  if (level.count == 2) return (is_closed ? 1 : 0.5) * group.sharing;
  // The hops of siblings `other` apart cover the whole circle, as do the hops of neighbouring
  // groups: all of them cross every link, half of the volume clockwise.
  if (group.strided || group.other == 1) return group.other / 2 * group.sharing;
  // On an arc, the hop that closes the ring returns over all its links.
  return (is_closed ? 1 : 0.5) * group.sharing;
}

// On a level of kind full or pairs, rings in all orders of the siblings (equivalent to a direct
// exchange) spread the hops over all links.
double full_hop_load(const GroupLevel& group, bool is_closed) {
  // `own` or, if the ring is open, own - 1 hops on own * (own - 1) directed links.
  return (is_closed ? 1 / (group.own - 1) : 1 / group.own) * group.sharing;
}

// A torus hop of a group with several members per child starts at the last member in one direction
// and at the first in the other, so the two directions never share a link. (A hierarchical
// all-reduce uses the links of all members and is the better choice there.)
double torus_hop_load(const Level& level, const GroupLevel& group, bool is_closed) {
  if (group.members_below == 1) {
    GroupLevel alone = group;
    alone.sharing = 1;  // neighbouring groups have their own links
    return ring_hop_load(level, alone, is_closed);
  }
  return group.strided ? group.other / 2 : 0.5;
}

}  // namespace

LinkLoad AllReduceCost::fullest() const {
  LinkLoad fullest;
  for (const LinkLoad& link : links) {
    if (link.seconds_per_byte > fullest.seconds_per_byte) fullest = link;
  }
  return fullest;
}

bool can_aggregate(const Interconnect& interconnect, const GroupGeometry& geometry) {
  for (std::size_t index = 0; index < geometry.levels.size(); ++index) {
    if (interconnect.levels[index].aggregation && geometry.levels[index].own > 1) return true;
  }
  return false;
}

AllReduceCost ring_all_reduce(const Interconnect& interconnect, const GroupGeometry& geometry) {
  AllReduceCost cost;
  cost.collective = Collective::kRing;
  const double volume = 2 * (geometry.members - 1) / geometry.members;
  double step_latency = 0;
  bool crosses_torus = false;
  for (std::size_t index = 0; index < geometry.levels.size(); ++index) {
    const Level& level = interconnect.levels[index];
    const GroupLevel& group = geometry.levels[index];
    if (group.own > 1) step_latency = std::max(step_latency, level.latency_s);
    double load = 0;
    if (level.kind == LevelKind::kSwitch) {
      // The ring leaves and enters every child once, independent of its path inside.
      load = group.spanned > 1 ? group.sharing : 0;
    } else if (group.own > 1) {
      switch (level.kind) {
        case LevelKind::kFull:
        case LevelKind::kPairs: load = full_hop_load(group, group.is_top); break;
        case LevelKind::kRing: load = ring_hop_load(level, group, group.is_top); break;
        case LevelKind::kTorus:
          load = torus_hop_load(level, group, group.is_top || crosses_torus);
          // Below this axis the ring enters a unit where it left the last one, so it is closed.
          crosses_torus = true;
          break;
        case LevelKind::kSwitch: break;
      }
    }
    if (load == 0) continue;
    load *= volume;
    cost.links.push_back({level.kind == LevelKind::kSwitch ? LinkRole::kUplink : LinkRole::kDirect,
                          index, group.sharing, load, load / level.of_streams().value});
  }
  if (interconnect.point_to_point) {
    cost.links.push_back(point_to_point_of_ring(*interconnect.point_to_point, geometry));
  }
  // 2(D-1) steps, each as slow as its longest hop.
  cost.latency_s = 2 * (geometry.members - 1) * step_latency;
  return cost;
}

double hierarchical_step(const Interconnect& interconnect, const GroupGeometry& geometry,
                         std::size_t index, double passing, AllReduceCost& cost) {
  const Level& level = interconnect.levels[index];
  const GroupLevel& group = geometry.levels[index];
  const double volume = 2 * (group.own - 1) / group.own;  // of the ring among siblings
  // Each of the `own` siblings holds 1/own when the levels above start.
  const double leaving = volume + passing / group.own;
  cost.latency_s += 2 * (group.own - 1) * level.latency_s;

  if (level.kind == LevelKind::kSwitch) {
    if (leaving == 0) return 0;
    const double load = leaving * group.sharing;
    cost.links.push_back(
        {LinkRole::kUplink, index, group.sharing, load, load / level.of_streams().value});
  } else if (group.own > 1) {
    const bool is_full = level.kind == LevelKind::kFull || level.kind == LevelKind::kPairs;
    double load =
        volume * (is_full ? full_hop_load(group, true) : ring_hop_load(level, group, true));
    // Every device of the child has its own link to the sibling, which carries its share.
    if (level.kind == LevelKind::kTorus) load /= group.sharing * group.members_below;
    cost.links.push_back(
        {LinkRole::kDirect, index, group.sharing, load, load / level.of_streams().value});
  }
  if (interconnect.point_to_point && group.own > 1) {
    cost.links.push_back(point_to_point_of_level(*interconnect.point_to_point, geometry, index,
                                                 volume / group.members_below));
  }
  return leaving;
}

AllReduceCost hierarchical_all_reduce(const Interconnect& interconnect,
                                      const GroupGeometry& geometry) {
  AllReduceCost cost;
  cost.collective = Collective::kHierarchical;
  double passing = 0;
  for (std::size_t index = 0; index < geometry.levels.size(); ++index) {
    passing = hierarchical_step(interconnect, geometry, index, passing, cost);
  }
  return cost;
}

}  // namespace atp::planner
