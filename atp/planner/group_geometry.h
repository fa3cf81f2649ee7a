#pragma once

#include <vector>

#include "atp/planner/mesh.h"

// Where the groups of one mesh dimension lie in the levels: the counts that every link load is made
// of. Doubles, because they are factors in rates.

namespace atp::planner {

struct GroupLevel {
  double own = 1;            // children of one unit that a group with members in it spans
  double other = 1;          // sets of `own` siblings in one unit, one beside the other
  double spanned = 1;        // K: children of this level that a group spans in all
  double sharing = 1;        // q: groups with members in the same child
  double members_below = 1;  // m: members of one group in one child
  bool strided = false;      // the own siblings lie `other` apart (dimension 1), not side by side
  bool is_top = false;       // the first level on which the group spans more than one child

  double count() const { return own * other; }
};

struct GroupGeometry {
  std::vector<GroupLevel> levels;  // top to bottom
  double members = 1;              // D: ranks of one group
};

GroupGeometry geometry_of(const MeshLayout& layout, Dimension dimension);

}  // namespace atp::planner
