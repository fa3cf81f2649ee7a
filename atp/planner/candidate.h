#pragma once

#include "atp/planner/feasibility.h"
#include "atp/planner/planner.h"
#include "atp/planner/search.h"

// From what the search found to what the caller reads.

namespace atp::planner {

Costing costing_of(const Request& request);

Feasibility feasibility_in(const Request& request, Mesh mesh);

// With memory, texts and notes.
Candidate candidate_of(const Request& request, const Costing& costing, const Found& found);

// Why a mesh has no cost though the model fits it.
inline constexpr const char* kNoCollective =
    "no allowed collective can run on one of its dimensions; allow a ring, or say which switches "
    "aggregate";

}  // namespace atp::planner
