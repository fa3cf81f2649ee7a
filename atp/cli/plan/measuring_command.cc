#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "atp/cli/command/command.h"
#include "atp/cli/plan/plan_command.h"

// `atp plan calibrate` and `atp plan compare` measure the collectives of the runtime, which is
// written in Python: this program replaces itself with the Python interpreter.

namespace atp {
namespace {

// Like `python -m`, but with a helpful message if the module atp is missing.
constexpr const char* kRunModule = R"(
import importlib.util, runpy, sys
if importlib.util.find_spec("atp") is None:
    print(f"atp plan: {sys.executable} has no module atp; set ATP_PYTHON to a Python that has it",
          file=sys.stderr)
    sys.exit(2)
runpy.run_module("atp.tensor_parallel.calibrate", run_name="__main__", alter_sys=True)
)";

// For a program in build/PRESET/bin of a checkout: the checkout's .venv, made by tools/setup, which
// has torch and the extension.
std::optional<std::string> checkout_interpreter() {
  std::error_code missing;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", missing);
  const auto build = program.parent_path().parent_path().parent_path();
  const auto python = build.parent_path() / ".venv/bin/python";
  if (build.filename() != "build" || access(python.c_str(), X_OK) != 0) return std::nullopt;
  return python.string();
}

std::string interpreter() {
  const char* chosen = std::getenv("ATP_PYTHON");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return checkout_interpreter().value_or("python3");
}

[[noreturn]] void become_python(std::vector<std::string> words) {
  words.insert(words.begin(), {interpreter(), "-c", kRunModule});
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  throw CommandError(fmt::format("cannot start {}: {}; set ATP_PYTHON to a Python that has atp",
                                 words[0], std::strerror(errno)),
                     kWrongUsage);
}

void add(const Command& plan, const char* name, const char* description,
         const std::vector<std::string>& first) {
  const Command command = plan.add_command(name, description);
  // The Python program has its own --help.
  command.callback_with_all_arguments([first](const std::vector<std::string>& arguments) {
    std::vector<std::string> words = first;
    words.insert(words.end(), arguments.begin(), arguments.end());
    become_python(words);
  });
}

}  // namespace

void add_measuring_commands(const Command& plan) {
  add(plan, "calibrate",
      "Measure the collectives of every mesh, and write the times into the cluster file; every "
      "rank of a job runs it: atp run -n N -- atp plan calibrate ...",
      {});
  add(plan, "compare",
      "Measure a layer's collectives on every mesh, and compare the times with the prediction; "
      "every rank of a job runs it",
      {"--compare"});
}

}  // namespace atp
