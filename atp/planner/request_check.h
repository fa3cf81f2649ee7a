#pragma once

#include "atp/base/result.h"
#include "atp/planner/planner.h"

// What every entry point refuses before it computes.

namespace atp::planner {

Status check_request(const Request& request);

// A split of every level into factors of its count.
Status check_layout(const Interconnect& interconnect, const MeshLayout& layout);

}  // namespace atp::planner
