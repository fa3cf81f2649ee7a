#pragma once

#include <vector>

#include "atp/config/text/yaml.h"
#include "atp/planner/interconnect.h"

// The keys that describe single devices rather than levels: what was measured, or is known, pair by
// pair (point_to_point) or mesh by mesh (measured).

namespace atp {

planner::PointToPointMatrix read_matrix(const YamlValue& value, std::uint32_t devices);
std::vector<planner::MeasuredMesh> read_measured(const YamlValue& value, std::uint32_t devices);

}  // namespace atp
