#pragma once

#include <string>

#include "atp/planner/mesh.h"

// Numbers and names in messages for people.

namespace atp::planner {

// At most six significant digits, no trailing zeros: 2.3, 0.000125, 1e+12.
std::string number_text(double value);

// A factor or ratio: three significant digits, or all before the point, or as many as it takes to
// tell it from 1: 1.08, 0.347, 1024, 1.0004.
std::string factor_text(double value);

// 'name'
std::string quoted(const std::string& name);

// (4,2)
std::string mesh_text(Mesh mesh);

}  // namespace atp::planner
