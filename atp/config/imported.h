#pragma once

#include <string>
#include <vector>

#include "atp/planner/interconnect.h"

namespace atp {

// What another program's description becomes, and what had to be assumed on the way: remarks for
// people, which `atp plan import` writes above the levels as comments.
struct Imported {
  planner::Interconnect interconnect;
  std::vector<std::string> remarks;
};

}  // namespace atp
