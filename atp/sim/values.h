#pragma once

#include <cstddef>
#include <span>

#include "atp/sim/plan.h"

namespace atp::sim {

// What a rank contributes to an operation of its job, from the job's seed: as many values of the
// operation's type as fit `out`.
void fill_input(const JobPlan& job, std::uint64_t number, Rank rank, const OperationPlan& operation,
                std::span<std::byte> out);

}  // namespace atp::sim
