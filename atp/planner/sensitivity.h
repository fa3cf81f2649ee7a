#pragma once

#include <functional>
#include <vector>

#include "atp/planner/search.h"

// What would change the answer. Each input is varied alone, up and down by powers of sqrt(2) to a
// factor of 64, until another mesh is best; bisection then finds the threshold. Aggregation is
// turned on for switches without it, with this project's packets of int32 values and enough
// servers, and off for switches with it. Whether a switch could aggregate is unknown; switches
// named PCIe, and gains below 5 %, are left out.
//
// The answer may change back beyond that; only the first change is reported. Each probe is a
// complete search, so interconnects with more than kMaxLayoutsProbed layouts are not probed.

namespace atp::planner {

inline constexpr std::size_t kMaxLayoutsProbed = 4096;

std::vector<Sensitivity> sensitivities_of(const CostInputs& inputs, const CostedMesh& best,
                                          const std::function<bool(Mesh)>& wanted);

}  // namespace atp::planner
