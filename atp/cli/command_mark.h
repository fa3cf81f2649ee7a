#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace atp {

// `atp run -n 4 python train.py --epochs 2` means what it means with "--" before python: everything
// from the first argument that is no option of `run` belongs to the user's command. Returns the
// arguments of `run` with that "--" put in where it is missing.
std::vector<std::string> mark_command(const CLI::App& run, std::vector<std::string> arguments);

}  // namespace atp
