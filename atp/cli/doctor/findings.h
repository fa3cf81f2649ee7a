#pragma once

#include <vector>

#include "atp/cli/doctor/facts.h"
#include "atp/cli/status/finding.h"

namespace atp {

// Judges the facts: what is fine, what is not, and how to fix it.
std::vector<Finding> findings_of(const HostFacts& facts);

}  // namespace atp
