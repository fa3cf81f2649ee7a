#pragma once

#include <string>
#include <vector>

#include "atp/cli/command/command.h"

// What --help knows of a command, as values: manual pages and shell completion are made from it.

namespace atp {

// One option or positional argument, as --help describes it.
struct OptionText {
  std::vector<std::string> names;  // "-n", "--ranks"; of a positional argument its name alone
  bool positional = false;
  bool required = false;
  std::string value;                 // "N", "ADDR:PORT"; "" of a flag
  std::string range;                 // "1 to 64", or "" where its help says all there is
  std::vector<std::string> choices;  // the only values that it takes, if it is so
  std::string default_value;
  std::string help;
};

// One command, as --help describes it.
struct CommandText {
  std::string path;  // "atp plan best"
  std::string description;
  std::vector<OptionText> options;  // positional arguments among them
  std::vector<CommandText> commands;
  std::string footer;
  bool passes_arguments_on = false;  // to a program whose --help has the options
};

// A command that is asked what it takes.
class DescribedCommand : public Command {
 public:
  explicit DescribedCommand(const Command& command) : Command(command) {}

  CommandText text(const std::string& path = "") const;  // the path: of the group that it is in
};

}  // namespace atp
