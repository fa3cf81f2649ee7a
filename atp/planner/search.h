#pragma once

#include <functional>
#include <vector>

#include "atp/planner/layer_cost.h"

// Every way to lay every mesh on the levels, and which is best.

namespace atp::planner {

struct CostedMesh {
  Mesh mesh;
  MeshLayout layout;
  LayerCost cost;  // without texts
};

// Calls visit with every layout: each level's count split into two factors in every way.
void for_each_layout(const Interconnect& interconnect,
                     const std::function<void(const MeshLayout&)>& visit);

// How many layouts there are.
std::size_t layout_count(const Interconnect& interconnect);

// The layout that numbers the devices as the paper does: dimension 1 takes the upper levels whole,
// dimension 2 the lower ones, one level may be split between them. Empty when the counts do not
// allow it, as for mesh (4, 3) on levels of 3 and 4.
MeshLayout contiguous_layout(const Interconnect& interconnect, Mesh mesh);

// All meshes with d1 * d2 = devices, larger d1 first.
std::vector<Mesh> meshes_of(std::uint64_t devices);

// The rule of planner.h: cheaper; then larger d1, the simpler collectives, the layout whose
// dimension 1 takes more of the upper levels. A strict weak order.
bool is_better(const CostedMesh& a, const CostedMesh& b);

// The best layout of each mesh that `wanted` accepts, best first; meshes that no allowed collective
// can serve are left out.
std::vector<CostedMesh> search(const CostInputs& inputs, const std::function<bool(Mesh)>& wanted);

}  // namespace atp::planner
