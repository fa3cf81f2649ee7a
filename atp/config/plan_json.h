#pragma once

#include <string>

#include "atp/planner/planner.h"

// A plan as JSON: what `atp plan best --json` prints and what the Python binding hands over. Times
// are seconds, sizes bytes; `seconds` are of one layer, forward and backward. A dimension of one
// rank has the collective "none". With an indent of 0 and more the text has lines, for people.

namespace atp {

std::string plan_json(const planner::Request& request, const planner::Plan& plan, int indent = -1);
std::string candidate_json(const planner::Candidate& candidate, int indent = -1);

}  // namespace atp
