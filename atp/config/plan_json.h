#pragma once

#include <nlohmann/json.hpp>

#include "atp/planner/planner.h"

// A plan as JSON: what `atp plan best --json` prints and what the Python binding hands over. Times
// are seconds, sizes bytes; `seconds` are of one layer, forward and backward. A dimension of one
// rank has the collective "none".

namespace atp {

nlohmann::ordered_json plan_json(const planner::Request& request, const planner::Plan& plan);
nlohmann::ordered_json candidate_json(const planner::Candidate& candidate);

}  // namespace atp
