#pragma once

#include <functional>
#include <vector>

#include "atp/planner/search.h"

// What would change the answer. Each number of the description is moved alone, up and down by
// powers of sqrt(2) to a factor of 64, until another mesh is best; bisection then finds where.
// Aggregation is switched on where a switch lacks it, with this project's packets of int32 values
// and servers enough, and off where it has it. Whether the switch is one that could is not known;
// those that are called PCIe, and gains of less than a twentieth, are left out.
//
// The answer can change back further out; only the first change is reported. One probe is one
// whole search, so interconnects with more than kMaxLayoutsProbed layouts are not probed.

namespace atp::planner {

inline constexpr std::size_t kMaxLayoutsProbed = 4096;

std::vector<Sensitivity> sensitivities_of(const CostInputs& inputs, const CostedMesh& best,
                                          const std::function<bool(Mesh)>& wanted);

}  // namespace atp::planner
