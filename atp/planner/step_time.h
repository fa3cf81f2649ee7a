#pragma once

#include "atp/planner/layer_cost.h"
#include "atp/planner/plan.h"

// The time of one training step: computation, and waiting for communication.
//
// It simulates the runtime's order. The chunks of the batch take turns at every collective that
// blocks (§4.1). In a product's backward pass the sum of dX overlaps with computing dW (§4.2).
// Norms and the loss block on their sums immediately. There are three resources, the processor and
// the links of each dimension; dimensions whose fullest links are on the same level share one.
// Matrix products take their operations divided by the device's speed. Everything else takes its
// memory traffic divided by the memory's speed, or no time if that is unknown.
//
// Replicas are a further resource, but where their fullest links are those of a dimension they get
// what the mesh leaves. The weights of a layer are gathered one layer ahead, and its gradients are
// summed once they are complete (FSDP's prefetching, and DistributedDataParallel's buckets).

namespace atp::planner {

// For a mesh whose collectives are in `cost`. The interconnect's device must have a speed.
StepTime step_time(const CostInputs& inputs, Mesh mesh, const LayerCost& cost);

// The seconds of what replicas send that computation does not hide.
double waited_between_replicas(const CostInputs& inputs, Mesh mesh, const LayerCost& cost,
                               const DataCost& data);

}  // namespace atp::planner
