#pragma once

#include <string>

#include "atp/planner/planner.h"

// A plan as JSON, for `atp plan best --json` and the Python binding. Times are in seconds, sizes in
// bytes; `seconds` is per layer, forward and backward. A dimension of one rank has the collective
// "none". An indent of 0 or more breaks the text into lines.

namespace atp {

std::string plan_json(const planner::Request& request, const planner::Plan& plan, int indent = -1);
std::string candidate_json(const planner::Candidate& candidate, int indent = -1);

}  // namespace atp
