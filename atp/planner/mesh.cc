#include "atp/planner/mesh.h"

namespace atp::planner {

Mesh mesh_of(const MeshLayout& layout) {
  Mesh mesh;
  for (const LevelSplit& split : layout) {
    mesh.d1 *= split.d1;
    mesh.d2 *= split.d2;
  }
  return mesh;
}

std::vector<std::uint32_t> ranks_by_position(const MeshLayout& layout) {
  const Mesh mesh = mesh_of(layout);
  std::vector<std::uint32_t> ranks(mesh.size());
  for (std::uint32_t position = 0; position < ranks.size(); ++position) {
    // Digits from the bottom level up; weight1 and weight2 are the weights of the next digits.
    std::uint32_t rest = position, i = 0, j = 0, weight1 = 1, weight2 = 1;
    for (auto split = layout.rbegin(); split != layout.rend(); ++split) {
      const std::uint32_t child = rest % (split->d1 * split->d2);
      rest /= split->d1 * split->d2;
      i += child / split->d2 * weight1;
      j += child % split->d2 * weight2;
      weight1 *= split->d1;
      weight2 *= split->d2;
    }
    ranks[position] = i * mesh.d2 + j;
  }
  return ranks;
}

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
