#pragma once

#include <cstdint>

#include "atp/base/result.h"
#include "atp/planner/interconnect.h"
#include "atp/planner/model.h"
#include "atp/planner/options.h"
#include "atp/planner/plan.h"

// Finds the device mesh on which a transformer layer communicates least.
//
// Tensor parallelism on DeviceMesh(d1, d2) spends, per layer, forward and backward (paper
// equation 2; T tokens, e bytes per element, C = 7h for a GPT, 2h for its row-first products)
//
//     2 T e (C / d1 * t2 + 2h / d2 * t1),
//
// t1 and t2 being the seconds per byte of an all-reduce on dimension 1 and 2 *while all groups of
// that dimension run*. What the planner adds to the paper is an honest t: in link-load mode it
// lays the mesh on the levels of the interconnect, counts for each link what all groups send over
// it, and takes the fullest link. There each dimension may run a ring, a hierarchical all-reduce or
// in-network aggregation, whichever is fastest. The search is exhaustive over the ways to split
// every level between the two dimensions, which is a handful of divisors per level, so the best is
// the best, and equal costs are decided by rule: larger d1, then the
// simpler collective, then the layout that gives dimension 1 more of the upper levels. (How many
// collectives there are cannot decide: it is the same for all layouts of a mesh.)
//
// The planner is a pure function of its arguments: no I/O, no clock, no randomness.

namespace atp::planner {

struct Request {
  Interconnect interconnect;
  Transformer model;
  Workload workload;
  std::uint32_t world_size = 0;  // 0: all devices; otherwise it must be their number
  Options options;
};

// Errors: a part that does not validate, a world size that is not the number of devices, and no
// feasible mesh (the message names the reasons mesh by mesh).
Result<Plan> plan(const Request& request);

// The best layout of one given mesh, feasible or not; what a sweep or a comparison needs. Errors:
// as above, or a mesh that the levels' counts cannot be split into.
Result<Candidate> evaluate(const Request& request, Mesh mesh);

// One given layout. Errors: as above, or splits that do not multiply to the levels' counts.
Result<Candidate> evaluate(const Request& request, const MeshLayout& layout);

// Seconds of one all-reduce of `bytes` per rank on one dimension of a layout, all its groups at
// once, with the best of `allowed` (link-load mode). wire_bytes_per_value is set against
// bytes_per_element.
Result<double> all_reduce_seconds(const Interconnect& interconnect, const MeshLayout& layout,
                                  Dimension dimension, double bytes, CollectiveSet allowed,
                                  std::uint32_t bytes_per_element);

// What every entry point refuses before it computes.
Status check_request(const Request& request);

}  // namespace atp::planner
