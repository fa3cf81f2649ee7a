#pragma once

#include <string>
#include <vector>

#include "atp/cli/command/command.h"

// What --help says about a command, as values: the source of manual pages and shell completion.

namespace atp {

// One option or positional argument, as --help describes it.
struct OptionText {
  std::vector<std::string> names;  // "-n", "--ranks"; for a positional argument just its name
  bool positional = false;
  bool required = false;
  std::string value;                 // "N", "ADDR:PORT"; empty for a flag
  std::string range;                 // "1 to 64"; empty without one
  std::vector<std::string> choices;  // the only allowed values; empty: not restricted
  std::string default_value;
  std::string help;
};

// One command, as --help describes it.
struct CommandText {
  std::string path;  // "atp plan best"
  std::string description;
  std::vector<OptionText> options;  // including positional arguments
  std::vector<CommandText> commands;
  std::string footer;
  bool passes_arguments_on = false;  // to a program whose --help lists the options
};

// A command that can describe itself.
class DescribedCommand : public Command {
 public:
  explicit DescribedCommand(const Command& command) : Command(command) {}

  CommandText text(const std::string& path = "") const;  // path: of the enclosing group
};

}  // namespace atp
