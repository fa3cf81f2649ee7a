#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

namespace atp {

// Throws CommandError when what stands where a command is expected is none: CLI11 would only say
// that a command is missing. What follows a command is left to CLI11.
void check_commands(const CLI::App& app, std::span<const std::string> arguments);

}  // namespace atp
