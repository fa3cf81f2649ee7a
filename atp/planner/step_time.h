#pragma once

#include "atp/planner/layer_cost.h"
#include "atp/planner/plan.h"

// The time of one training step: what a rank computes, and for what it waits.
//
// The runtime's own order is played: the chunks of the batch take turns at every collective that is
// awaited (§4.1), in a product's backward pass the sum of dX is under way while dW is computed
// (§4.2), and the norms and the loss wait for their sums at once. There are three resources, the
// processor and the links of each dimension; dimensions whose fullest links are of one level share
// one. Products take their operations over the device's speed; everything else what it reads and
// writes over the speed of its memory, or nothing where that is not known.

namespace atp::planner {

// Of a mesh whose collectives `cost` has; the interconnect's device has a speed.
StepTime step_time(const CostInputs& inputs, Mesh mesh, const LayerCost& cost);

}  // namespace atp::planner
