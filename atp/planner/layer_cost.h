#pragma once

#include <cmath>

#include "atp/planner/interconnect.h"
#include "atp/planner/layer_volume.h"
#include "atp/planner/link_load.h"
#include "atp/planner/mesh.h"
#include "atp/planner/model.h"
#include "atp/planner/options.h"
#include "atp/planner/plan.h"

// The cost of one transformer layer on one layout of one mesh, in any mode. In link-load mode also
// the contribution of each mesh dimension: the best allowed collective for what the layer reduces
// there.

namespace atp::planner {

// A cost rounded to 40 bits (12 digits). Equal costs may differ in the last bits, which must not
// decide between them: ties are decided by rule.
inline double comparable(double seconds) {
  int exponent = 0;
  const double fraction = std::frexp(seconds, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, 40)), exponent - 40);
}

// What the layer needs from a dimension: bytes per rank and operations per layer.
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

// The cost of every allowed collective that can run on this dimension, cheapest first; ties stay in
// the order ring, hierarchical, aggregation. Empty if none can run.
//
// Reduce-scatters use the collective that is cheapest for them, and so do all-gathers,
// independently of the all-reduces. With ring and hierarchical they cost half as much as an
// all-reduce. Switches do only whole sums: a slice is taken from a whole sum, or slices are summed
// with zeros elsewhere.
std::vector<DimensionCost> dimension_costs(const Interconnect& interconnect,
                                           const GroupGeometry& geometry, const Demand& demand,
                                           CollectiveSet allowed, double bytes_per_element);

// The cost of a dimension in one layer and in embedding, head and loss, with one collective for all
// of their all-reduces.
struct DimensionOption {
  DimensionCost layer;
  DimensionCost ends;

  double step_seconds(std::uint32_t layers) const {
    return layers * layer.seconds() + ends.seconds();
  }
};

// The parts of a request that determine costs; they are validated and outlive this. `tokens`, of
// one micro-batch, is separate so that its influence can be explored.
struct CostInputs {
  const Interconnect& interconnect;
  const Transformer& model;
  const Options& options;
  double tokens = 0;
  double sequence = 0;        // tokens per sequence; for the time of the attention core
  std::uint64_t at_once = 0;  // sequences per chunk; for the split of the attention core
  double micro_batches = 1;   // each of `tokens`
};

// The allowed collectives of one dimension, the cheapest for the whole model first, ties by
// simplicity. Link-load mode only.
std::vector<DimensionOption> dimension_options(const CostInputs& inputs, Mesh mesh,
                                               const MeshLayout& layout, Dimension dimension);

// `mesh` is the layout's mesh. In the paper's modes the layout is ignored and may be empty. If the
// mesh was measured, the layout only determines which links the sums load. The cost is infinite if
// no allowed collective can run on a dimension. Leaves the texts empty; describe() fills them.
LayerCost layer_cost(const CostInputs& inputs, Mesh mesh, const MeshLayout& layout);

// Fills the texts for people: bottlenecks, and why each collective was chosen.
void describe(const CostInputs& inputs, Mesh mesh, const MeshLayout& layout, LayerCost& cost);

// What the layer needs from one dimension. In the runtime this depends on the collective.
Demand layer_demand(const CostInputs& inputs, Mesh mesh, Dimension dimension,
                    Collective collective);

// Bytes per value that is summed.
double summed_bytes(const CostInputs& inputs);

// The volume of the layer, by the given accounting.
LayerVolume volume_of_layer(const CostInputs& inputs, Mesh mesh, Accounting accounting);

// Whether the cost of the mesh comes from Interconnect::measured, measured with an allowed
// algorithm.
bool is_measured(const CostInputs& inputs, Mesh mesh);

}  // namespace atp::planner
