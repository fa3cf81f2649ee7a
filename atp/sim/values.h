#pragma once

#include <cstdint>
#include <span>

#include "atp/sim/plan.h"

namespace atp::sim {

// The contribution of one rank to one operation: a pure function of its arguments, so that the
// oracle needs no copy of what a worker was given (an operation may overwrite its input).
void fill_input(const JobPlan& job, std::uint64_t operation, Rank rank, Values values,
                std::span<float> out);

}  // namespace atp::sim
