#include "atp/planner/group_geometry.h"

namespace atp::planner {

GroupGeometry geometry_of(const MeshLayout& layout, Dimension dimension) {
  GroupGeometry geometry;
  geometry.levels.resize(layout.size());
  double spanned = 1;
  for (std::size_t index = 0; index < layout.size(); ++index) {
    const bool is_first = dimension == Dimension::k1;
    GroupLevel& level = geometry.levels[index];
    level.own = is_first ? layout[index].d1 : layout[index].d2;
    level.other = is_first ? layout[index].d2 : layout[index].d1;
    level.strided = is_first;
    level.is_top = spanned == 1 && level.own > 1;
    spanned *= level.own;
    level.spanned = spanned;
  }
  geometry.members = spanned;
  double sharing = 1, members = 1;
  for (std::size_t index = layout.size(); index-- > 0;) {
    GroupLevel& level = geometry.levels[index];
    level.sharing = sharing;
    level.members_below = members;
    sharing *= level.other;
    members *= level.own;
  }
  return geometry;
}

}  // namespace atp::planner
