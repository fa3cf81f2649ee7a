#include "atp/cli/command_check.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "atp/cli/command.h"
#include "atp/config/nearest_name.h"

namespace atp {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& group) {
  return group.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App* find_command(const CLI::App& group, const std::string& name) {
  for (const CLI::App* command : commands_of(group)) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

CommandError not_a_command(const CLI::App& group, const std::string& path,
                           const std::string& found) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(group)) names.push_back(command->get_name());
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string problem =
      found.starts_with('-')
          ? fmt::format("'{}' is no option of '{}', and a command comes first: write {}", found,
                        path, listed(known))
          : fmt::format("'{}' is no command of '{}': {}", found, path, hint(found, known));
  return CommandError(fmt::format("{} (see '{} --help')", problem, path), kWrongUsage);
}

}  // namespace

void check_commands(const CLI::App& app, std::span<const std::string> arguments) {
  const CLI::App* group = &app;
  std::string path = app.get_name();
  for (const std::string& argument : arguments) {
    if (commands_of(*group).empty()) return;
    const CLI::App* command = find_command(*group, argument);
    if (command == nullptr) {
      if (group->get_option_no_throw(argument) != nullptr) return;  // --help
      throw not_a_command(*group, path, argument);
    }
    group = command;
    path += " " + argument;
  }
}

}  // namespace atp
