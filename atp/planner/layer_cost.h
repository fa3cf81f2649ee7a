#pragma once

#include <cmath>

#include "atp/planner/interconnect.h"
#include "atp/planner/layer_volume.h"
#include "atp/planner/link_load.h"
#include "atp/planner/mesh.h"
#include "atp/planner/model.h"
#include "atp/planner/options.h"
#include "atp/planner/plan.h"

// The cost of one transformer layer on one layout of one mesh, in any mode; and on the link-load
// model, what each mesh dimension contributes: the best of the allowed collectives for what the
// layer reduces there.

namespace atp::planner {

// A cost rounded to 40 bits (12 digits). Two ways to compute one cost differ in the last bits, and
// which of them wins must not depend on that: ties are decided by rule.
inline double comparable(double seconds) {
  int exponent = 0;
  const double fraction = std::frexp(seconds, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, 40)), exponent - 40);
}

// What the layer asks of the dimension; bytes per rank and operations per layer.
struct Demand {
  double all_reduced_bytes = 0;
  double all_reduces = 0;
  double scattered_bytes = 0;
  double reduce_scatters = 0;
  double gathered_bytes = 0;
  double all_gathers = 0;

  double bytes() const { return all_reduced_bytes + scattered_bytes + gathered_bytes; }
  double operations() const { return all_reduces + reduce_scatters + all_gathers; }
};

// The cost of every allowed collective that can run on this dimension, cheapest first; equal ones
// stay in the order ring, hierarchical, aggregation. Empty when none can.
//
// Reduce-scatters run on whichever collective is cheapest for them, and so do all-gathers, whatever
// sums the rest. With ring and hierarchical they are half of an all-reduce. Switches that aggregate
// know no halves: a slice is taken of the whole sum, or the slices are summed with zeros elsewhere.
std::vector<DimensionCost> dimension_costs(const Interconnect& interconnect,
                                           const GroupGeometry& geometry, const Demand& demand,
                                           CollectiveSet allowed, double bytes_per_element);

// What a dimension costs in one layer and in embedding, head and loss, one collective summing in
// all of them.
struct DimensionOption {
  DimensionCost layer;
  DimensionCost ends;

  double step_seconds(std::uint32_t layers) const {
    return layers * layer.seconds() + ends.seconds();
  }
};

// What costing needs of a request; the parts are validated and outlive it. tokens is a number of
// its own so that its influence can be explored.
struct CostInputs {
  const Interconnect& interconnect;
  const Transformer& model;
  const Options& options;
  double tokens = 0;
  double sequence = 0;        // tokens of one sequence; for the time of the attention core
  std::uint64_t at_once = 0;  // sequences of a chunk; for how the attention core is spread
};

// The allowed collectives of one dimension, cheapest for the whole model first, equal ones simplest
// first. Link-load mode.
std::vector<DimensionOption> dimension_options(const CostInputs& inputs, Mesh mesh,
                                               const MeshLayout& layout, Dimension dimension);

// mesh is that of the layout; in the paper's modes the layout is not read and may be empty. Where
// the mesh was measured the layout only says which links the sums fill. The cost is infinite when
// no allowed collective can run on a dimension. No texts are made, see describe().
LayerCost layer_cost(const CostInputs& inputs, Mesh mesh, const MeshLayout& layout);

// Fills the texts for people: bottlenecks and why each collective was chosen.
void describe(const CostInputs& inputs, Mesh mesh, const MeshLayout& layout, LayerCost& cost);

// What the layer asks of one dimension. In the runtime it depends on what sums there.
Demand layer_demand(const CostInputs& inputs, Mesh mesh, Dimension dimension,
                    Collective collective);

// Of one value that `collective` sums.
double summed_bytes(const CostInputs& inputs, Collective collective);

// What the layer moves in any of the ways to count it.
LayerVolume volume_of_layer(const CostInputs& inputs, Mesh mesh, Accounting accounting);

// Whether the mesh is priced by Interconnect::measured: by what was measured with an algorithm that
// may run.
bool is_measured(const CostInputs& inputs, Mesh mesh);

}  // namespace atp::planner
