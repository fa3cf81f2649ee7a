#include <algorithm>

#include "atp/planner/link_load.h"
#include "atp/planner/point_to_point.h"
#include "atp/planner/sibling_exchange.h"

namespace atp::planner {
namespace {

// A torus hop of a group with several members per child starts at the last of them in one direction
// and at the first in the other, so the directions never meet on one link. (A hierarchical
// all-reduce uses the links of all members and is the better choice there.)
double torus_hop_load(const Level& level, const GroupLevel& group, bool is_closed) {
  if (group.members_below == 1) {
    GroupLevel alone = group;
    alone.sharing = 1;  // the groups beside it have links of their own
    return ring_hop_load(level, alone, is_closed);
  }
  return group.strided ? group.other / 2 : 0.5;
}

}  // namespace

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
      // The ring leaves and enters every child once, whatever it does inside.
      load = group.spanned > 1 ? group.sharing : 0;
    } else if (group.own > 1) {
      switch (level.kind) {
        case LevelKind::kFull:
        case LevelKind::kPairs: load = full_hop_load(group, group.is_top); break;
        case LevelKind::kRing: load = ring_hop_load(level, group, group.is_top); break;
        case LevelKind::kTorus:
          load = torus_hop_load(level, group, group.is_top || crosses_torus);
          // Below this axis the ring enters a unit where it left the last one, and so closes.
          crosses_torus = true;
          break;
        case LevelKind::kSwitch: break;
      }
    }
    if (load == 0) continue;
    load *= volume;
    cost.links.push_back({level.kind == LevelKind::kSwitch ? LinkRole::kUplink : LinkRole::kDirect,
                          index, group.sharing, load, load / level.bandwidth.value});
  }
  if (interconnect.point_to_point) {
    cost.links.push_back(point_to_point_of_ring(*interconnect.point_to_point, geometry));
  }
  // 2(D-1) steps, each as slow as its longest hop.
  cost.latency_s = 2 * (geometry.members - 1) * step_latency;
  return cost;
}

}  // namespace atp::planner
