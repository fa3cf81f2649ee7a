#pragma once

#include <string>
#include <vector>

// Misspelt environment variables, which would otherwise have no effect and go unnoticed.

namespace atp {

// For each name in "NAME=value" that is nearly one of them: "ATP_ROUT is unknown; did you mean
// ATP_ROUTE?" A name that is like none is somebody else's: for a service called atp, Kubernetes
// sets ATP_PORT.
std::vector<std::string> misspelt_variables(const char* const* environment);

// Those of this process's environment that nobody has named yet: only the first call returns any,
// only in one rank of each host, and not in what `atp run` starts, which has named them itself.
std::vector<std::string> untold_misspelt_variables();

}  // namespace atp
