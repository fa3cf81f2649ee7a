#pragma once

#include <CLI/CLI.hpp>
#include <string>

// The log of the programs: spdlog on standard error, so that standard output stays the program's.

namespace atp {

// --log-level; takes effect before the command's callback runs.
void add_log_option(CLI::App& command);

// The level in force, as --log-level takes it.
std::string log_level();

}  // namespace atp
