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

// Copies numbers, not text.
Bottleneck bottleneck_of(const LinkLoad& link);

}  // namespace atp::planner
