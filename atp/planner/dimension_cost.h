#pragma once

#include "atp/planner/interconnect.h"
#include "atp/planner/link_load.h"
#include "atp/planner/mesh.h"
#include "atp/planner/options.h"
#include "atp/planner/plan.h"

// What one mesh dimension costs per layer on the link-load model: the best of the allowed
// collectives for what the layer reduces there.

namespace atp::planner {

// What the layer asks of the dimension; bytes per rank and operations per layer.
struct Demand {
  double all_reduced_bytes = 0;
  double all_reduces = 0;
  double scattered_bytes = 0;  // reduce-scattered or gathered
  double scatters = 0;
};

// The cost of every allowed collective that can run on this dimension, cheapest first; equal ones
// stay in the order ring, hierarchical, aggregation. Empty when none can.
//
// Reduce-scatters and all-gathers have half the cost of the better of ring and hierarchical,
// whatever sums the rest; if only aggregation is allowed they are all-reduces of which a slice is
// used.
std::vector<DimensionCost> dimension_costs(const Interconnect& interconnect,
                                           const GroupGeometry& geometry, const Demand& demand,
                                           CollectiveSet allowed, double bytes_per_element);

// Copies numbers, not text.
Bottleneck bottleneck_of(const LinkLoad& link);

}  // namespace atp::planner
