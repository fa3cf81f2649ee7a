#pragma once

#include <string>

#include "atp/collective/failure_text.h"

namespace atp {

// Why this rank may not join: what it said, who says otherwise or which limit it meets, and what to
// do. "rank 3 was refused: it says the job has 8 ranks, rank 0 says 4; start all ranks with the
// same world size".
std::string refusal_text(const Failure& failure, const FailureContext& context);

}  // namespace atp
