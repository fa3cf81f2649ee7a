#pragma once

#include <cstdint>

#include "atp/base/result.h"
#include "atp/planner/interconnect.h"
#include "atp/planner/layer_cost.h"
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
// where t1 and t2 are the seconds per byte of an all-reduce on dimension 1 and 2 *while all groups
// of that dimension run*. The planner improves on the paper's t: in link-load mode it maps the mesh
// to the levels of the interconnect, adds up what all groups send over each link, and takes the
// fullest link. Each dimension may use a ring, a hierarchical all-reduce or in-network aggregation,
// whichever is fastest. The search covers all ways to split every level between the two dimensions,
// a few divisors per level, so the result is optimal. Ties are decided by rule: larger d1, then the
// simpler collective, then the layout that gives dimension 1 more of the upper levels. (The number
// of collectives cannot decide: it is the same for all layouts of a mesh.)
//
// The planner is a pure function of its arguments: no I/O, no clock, no randomness.

namespace atp::planner {

struct Request {
  Interconnect interconnect;
  Transformer model;
  Workload workload;
  std::uint32_t world_size = 0;  // 0: all devices; otherwise must equal their number
  Options options;
};

// Errors: an invalid part, a world size that differs from the number of devices, or no feasible
// mesh (the message gives the reasons for each mesh).
Result<Plan> plan(const Request& request);

// The best layout of a given mesh, feasible or not, for sweeps and comparisons. Errors: as above,
// or a mesh into which the levels' counts cannot be split.
Result<Candidate> evaluate(const Request& request, Mesh mesh);

// Evaluates a given layout. Errors: as above, or splits that do not multiply to the levels' counts.
Result<Candidate> evaluate(const Request& request, const MeshLayout& layout);

// Seconds of one all-reduce of `bytes` per rank on one dimension of a layout, with all its groups
// at once and the best of `allowed` (link-load mode). wire_bytes_per_value is relative to
// bytes_per_element.
Result<double> all_reduce_seconds(const Interconnect& interconnect, const MeshLayout& layout,
                                  Dimension dimension, double bytes, CollectiveSet allowed,
                                  std::uint32_t bytes_per_element);

// The error of a plan without any feasible mesh.
Error no_feasible_mesh(const std::vector<RejectedMesh>& rejected);

CostInputs cost_inputs(const Request& request);

// The checks that every entry point makes first.
Status check_request(const Request& request);

}  // namespace atp::planner
