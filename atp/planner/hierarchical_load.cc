#include "atp/planner/hierarchical_load.h"

#include "atp/planner/point_to_point.h"
#include "atp/planner/sibling_exchange.h"

namespace atp::planner {

double sibling_volume(const GroupLevel& group) { return 2 * (group.own - 1) / group.own; }

double hierarchical_step(const Interconnect& interconnect, const GroupGeometry& geometry,
                         std::size_t index, double passing, AllReduceCost& cost) {
  const Level& level = interconnect.levels[index];
  const GroupLevel& group = geometry.levels[index];
  const double volume = sibling_volume(group);
  // Each of the `own` siblings holds its part when the levels above begin.
  const double leaving = volume + passing / group.own;
  cost.latency_s += 2 * (group.own - 1) * level.latency_s;

  if (level.kind == LevelKind::kSwitch) {
    if (leaving == 0) return 0;
    const double load = leaving * group.sharing;
    cost.links.push_back(
        {LinkRole::kUplink, index, group.sharing, load, load / level.bandwidth.value});
  } else if (group.own > 1) {
    const bool is_full = level.kind == LevelKind::kFull || level.kind == LevelKind::kPairs;
    double load =
        volume * (is_full ? full_hop_load(group, true) : ring_hop_load(level, group, true));
    // Every device of the child has its own link to the sibling and carries its own share.
    if (level.kind == LevelKind::kTorus) load /= group.sharing * group.members_below;
    cost.links.push_back(
        {LinkRole::kDirect, index, group.sharing, load, load / level.bandwidth.value});
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
