#include "atp/cli/arguments.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "atp/config/text/words.h"

namespace atp {
namespace {

std::optional<Command> find_command(const Command& group, const std::string& name) {
  for (const Command& command : group.commands()) {
    if (command.name() == name) return command;
  }
  return std::nullopt;
}

std::string names_of_commands(const Command& group) {
  std::vector<std::string> names;
  for (const Command& command : group.commands()) names.push_back(command.name());
  return listed(std::vector<std::string_view>(names.begin(), names.end()));
}

CommandError not_a_command(const Command& group, const std::string& path,
                           const std::string& found) {
  if (group.commands().empty()) {
    return CommandError(
        fmt::format("'{}' is not a command of '{}', which has no subcommands", found, path),
        kWrongUsage);
  }
  std::vector<std::string> names;
  for (const Command& command : group.commands()) names.push_back(command.name());
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string problem =
      found.starts_with('-')
          ? fmt::format("'{}' is not an option of '{}', and a command comes first: use {}", found,
                        path, names_of_commands(group))
          : fmt::format("'{}' is not a command of '{}': {}", found, path, hint(found, known));
  return CommandError(fmt::format("{} (see '{} --help')", problem, path), kWrongUsage);
}

}  // namespace

void check_commands(const Command& program, std::span<const std::string> arguments) {
  Command group = program;
  std::string path = program.name();
  for (const std::string& argument : arguments) {
    if (group.commands().empty()) return;
    const std::optional<Command> command = find_command(group, argument);
    if (!command) {
      if (group.has_option(argument)) return;  // --help
      throw not_a_command(group, path, argument);
    }
    group = *command;
    path += " " + argument;
  }
  if (!group.commands().empty()) {
    throw CommandError(fmt::format("'{}' needs a command: use {} (see '{} --help')", path,
                                   names_of_commands(group), path),
                       kWrongUsage);
  }
}

std::vector<std::string> help_arguments(const Command& program,
                                        std::vector<std::string> arguments) {
  if (arguments.empty() || arguments.front() != "help") return arguments;
  if (arguments.size() == 1) return {"--help"};
  const auto is_option = [](const std::string& word) { return word.starts_with('-'); };
  if (std::any_of(arguments.begin(), arguments.end(), is_option) ||
      !find_command(program, arguments[1])) {
    return arguments;
  }
  arguments.erase(arguments.begin());
  Command group = program;
  std::string path = program.name();
  for (const std::string& argument : arguments) {
    const std::optional<Command> command = find_command(group, argument);
    if (!command) throw not_a_command(group, path, argument);
    group = *command;
    path += " " + argument;
  }
  arguments.emplace_back("--help");
  return arguments;
}

std::vector<std::string> mark_command(const Command& run, std::vector<std::string> arguments) {
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at].starts_with('-') && arguments[at] != "--") {
    // "-n 4", not "-n4" or "--ranks=4", has its value in the next argument.
    at += run.takes_value(arguments[at]) ? 2 : 1;
  }
  if (at < arguments.size() && arguments[at] != "--") {
    arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(at), "--");
  }
  return arguments;
}

}  // namespace atp
