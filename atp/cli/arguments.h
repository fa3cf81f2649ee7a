#pragma once

#include <span>
#include <string>
#include <vector>

#include "atp/cli/command/command.h"

// What the parser of arguments is spared: to say what is no command, and to find where the user's
// own command begins.

namespace atp {

// Throws CommandError when what stands where a command is expected is none: CLI11 would only say
// that a command is missing. What follows a command is left to CLI11.
void check_commands(const Command& program, std::span<const std::string> arguments);

// `atp help plan best` means `atp plan best --help`, and `atp help` alone `atp --help`. Left as
// they are: a topic that is no command, and options of `help` itself. Throws CommandError where a
// word after a command is none of its own.
std::vector<std::string> help_arguments(const Command& program, std::vector<std::string> arguments);

// `atp run -n 4 python train.py --epochs 2` means what it means with "--" before python: everything
// from the first argument that is no option of `run` belongs to the user's command. Returns the
// arguments of `run` with that "--" put in where it is missing.
std::vector<std::string> mark_command(const Command& run, std::vector<std::string> arguments);

}  // namespace atp
