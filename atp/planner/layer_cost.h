#pragma once

#include "atp/planner/dimension_cost.h"
#include "atp/planner/interconnect.h"
#include "atp/planner/mesh.h"
#include "atp/planner/model.h"
#include "atp/planner/options.h"
#include "atp/planner/plan.h"

// The cost of one transformer layer on one layout of one mesh, in any mode.

namespace atp::planner {

// What costing needs of a request; the parts are validated and outlive it. tokens is a number of
// its own so that its influence can be explored.
struct Costing {
  const Interconnect& interconnect;
  const Transformer& model;
  const Options& options;
  double tokens = 0;
};

// mesh is that of the layout; in the paper's modes the layout is not read and may be empty. The
// cost is infinite when no allowed collective can run on a dimension. No texts are made, see
// describe().
LayerCost layer_cost(const Costing& costing, Mesh mesh, const MeshLayout& layout);

// Fills the texts for people: bottlenecks and why each collective was chosen.
void describe(const Costing& costing, const MeshLayout& layout, LayerCost& cost);

// What the layer asks of one dimension.
Demand layer_demand(const Costing& costing, Mesh mesh, Dimension dimension);

// The measurement of this mesh, or null.
const MeasuredMesh* measurement_of(const Interconnect& interconnect, Mesh mesh);

}  // namespace atp::planner
