#include "atp/cli/command_mark.h"

namespace atp {
namespace {

// Does the value of this option stand in the next argument? "-n 4", not "-n4" or "--ranks=4".
bool takes_next(const CLI::App& run, const std::string& argument) {
  const CLI::Option* option = run.get_option_no_throw(argument);
  return option != nullptr && option->get_items_expected_max() > 0;
}

}  // namespace

std::vector<std::string> mark_command(const CLI::App& run, std::vector<std::string> arguments) {
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at].starts_with('-') && arguments[at] != "--") {
    at += takes_next(run, arguments[at]) ? 2 : 1;
  }
  if (at < arguments.size() && arguments[at] != "--") {
    arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(at), "--");
  }
  return arguments;
}

}  // namespace atp
