#pragma once

#include <functional>
#include <vector>

#include "atp/planner/layer_cost.h"

// Enumerates the layouts of every mesh and finds the best.

namespace atp::planner {

struct CostedMesh {
  Mesh mesh;
  MeshLayout layout;
  LayerCost cost;  // without texts
};

// Calls `visit` with every layout: all factorizations of each level's count into two factors.
void for_each_layout(const Interconnect& interconnect,
                     const std::function<void(const MeshLayout&)>& visit);

// The number of layouts.
std::size_t layout_count(const Interconnect& interconnect);

// The paper's layout: dimension 1 gets the upper levels, dimension 2 the lower ones, and one level
// may be split between them. Empty if the counts do not allow it, as for mesh (4, 3) on levels of 3
// and 4.
MeshLayout contiguous_layout(const Interconnect& interconnect, Mesh mesh);

// All meshes with d1 * d2 = devices, larger d1 first.
std::vector<Mesh> meshes_of(std::uint64_t devices);

// The order of planner.h: cheaper, then larger d1, simpler collectives, the layout that gives
// dimension 1 more of the upper levels. A strict weak order.
bool is_better(const CostedMesh& a, const CostedMesh& b);

// The best layout of each mesh that `wanted` accepts, best first. Meshes on which no allowed
// collective can run are left out.
std::vector<CostedMesh> search(const CostInputs& inputs, const std::function<bool(Mesh)>& wanted);

}  // namespace atp::planner
