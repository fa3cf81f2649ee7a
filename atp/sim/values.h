#pragma once

#include <cstddef>
#include <span>

#include "atp/sim/plan.h"

namespace atp::sim {

// Fills `out` with a rank's contribution to an operation, drawn from the job's seed, in the
// operation's type.
void fill_input(const JobPlan& job, std::uint64_t number, Rank rank, const OperationPlan& operation,
                std::span<std::byte> out);

}  // namespace atp::sim
