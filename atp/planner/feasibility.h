#pragma once

#include <string>
#include <vector>

#include "atp/planner/mesh.h"
#include "atp/planner/model.h"
#include "atp/planner/options.h"

// Whether the matrices and heads of a model can be cut for a mesh. The rules follow from the
// placements of the paper, §3.2.1: heads and the feed-forward width are cut d1 times, the hidden
// width d2 times, and the attention core is spread over dimension 2 by heads or by sequences. Nor
// may a rank need more memory than its device has, if that is known.

namespace atp::planner {

struct Feasibility {
  std::vector<std::string> reasons;  // against; empty when the mesh can run the model
  std::vector<std::string> notes;
};

Feasibility feasibility_of(const Transformer& model, const Workload& workload, Mesh mesh,
                           const Options& options);

}  // namespace atp::planner
