#pragma once

#include <span>
#include <string>
#include <vector>

#include "atp/cli/command/command.h"

// Two things that CLI11 does not do: name an unknown command, and find where the user's own command
// line begins.

namespace atp {

// Throws CommandError if the argument in a command's place is not a command: CLI11 would only say
// that a command is missing. The arguments after a command are left to CLI11.
void check_commands(const Command& program, std::span<const std::string> arguments);

// Turns `atp help plan best` into `atp plan best --help`, and `atp help` into `atp --help`. Leaves
// topics and the options of `help` itself alone. Throws CommandError if a word after a command is
// not one of its subcommands.
std::vector<std::string> help_arguments(const Command& program, std::vector<std::string> arguments);

// Everything from the first argument that is not an option of `run` belongs to the user's command:
// `atp run -n 4 python train.py --epochs 2` is read as if "--" preceded python. Returns the
// arguments of `run` with that "--" inserted where it is missing.
std::vector<std::string> mark_command(const Command& run, std::vector<std::string> arguments);

}  // namespace atp
