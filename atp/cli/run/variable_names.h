#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

// Misspelt environment variables, which would otherwise have no effect and go unnoticed.

namespace atp {

// The variables of docs/variables.md that begin with ATP_, except those of tests. (For torch, they
// are in python/atp/torch/_variables.py, too; tests/readme/test_variables.py compares all three.)
std::span<const std::string_view> variable_names();

// For each name in "NAME=value" that is nearly one of them: "ATP_ROUT is unknown; did you mean
// ATP_ROUTE?" A name that is like none is somebody else's: for a service called atp, Kubernetes
// sets ATP_PORT.
std::vector<std::string> misspelt_variables(const char* const* environment);

}  // namespace atp
