#pragma once

#include <cstdint>
#include <vector>

// The device mesh of the paper, §3.1, and how it is mapped to the levels of an interconnect.
//
// DeviceMesh(d1, d2) has N = d1 * d2 ranks, rank = i * d2 + j. An all-reduce "on dimension 1" is
// over the d1 ranks with the same j (d2 groups at once), "on dimension 2" over the d2 ranks with
// the same i. Weights are split so that dimension 2 carries the wide tensors (7h/d1 against 2h/d2
// in equation 2), so it belongs on the fast links.

namespace atp::planner {

struct Mesh {
  std::uint32_t d1 = 1;
  std::uint32_t d2 = 1;

  std::uint64_t size() const { return std::uint64_t{d1} * d2; }
  bool operator==(const Mesh&) const = default;
};

enum class Dimension { k1, k2 };

// The split of the `count` children of one level: count = d1 * d2. The child at position i * d2 + j
// has digit i of dimension 1 and digit j of dimension 2, so dimension 2 is contiguous and dimension
// 1 has stride d2.
struct LevelSplit {
  std::uint32_t d1 = 1;
  std::uint32_t d2 = 1;
  bool operator==(const LevelSplit&) const = default;
};

// One split per level, top to bottom. The mesh is their product. The paper's contiguous meshes are
// the layouts with splits (count, 1) above some level and (1, count) below it.
using MeshLayout = std::vector<LevelSplit>;

Mesh mesh_of(const MeshLayout& layout);

// rank_of_position[p] is the mesh rank i * d2 + j on device p, with devices in the order of the
// levels (top level slowest). A launcher needs it if the layout is not contiguous.
std::vector<std::uint32_t> ranks_by_position(const MeshLayout& layout);

// How the groups of one mesh dimension are distributed over the levels: the counts from which link
// loads are computed. They are doubles because they are factors of rates.

struct GroupLevel {
  double own = 1;            // children of one unit that a group spans
  double other = 1;          // sets of `own` siblings in one unit
  double spanned = 1;        // K: children of this level that a group spans in total
  double sharing = 1;        // q: groups with members in the same child
  double members_below = 1;  // m: members of one group in one child
  bool strided = false;      // own siblings are `other` apart (dimension 1), not adjacent
  bool is_top = false;       // the first level on which the group spans more than one child

  double count() const { return own * other; }
};

struct GroupGeometry {
  std::vector<GroupLevel> levels;  // top to bottom
  double members = 1;              // D: ranks per group
};

GroupGeometry geometry_of(const MeshLayout& layout, Dimension dimension);

}  // namespace atp::planner
