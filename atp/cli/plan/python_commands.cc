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

// Commands that are written in Python, for which this program replaces itself with the interpreter:
// `atp plan calibrate` and `atp plan compare`, which measure the runtime's collectives, and
// `atp plan import`, which reads text and needs the standard library alone.

namespace atp {
namespace {

// Like `python -m`, but with a helpful message if the module is missing, or Python too old for it.
// The first argument is the module, the second a folder that may have it, or is empty.
constexpr const char* kRunModule = R"(
import importlib.util, os, runpy, sys
module, folder = sys.argv[1:3]
del sys.argv[1:3]
if folder and os.path.isdir(os.path.join(folder, "atp")):
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True  # into a folder of an installed package
package = ".".join(module.split(".")[:2])
problem = ""
if sys.version_info < (3, 9):
    problem = "is older than Python 3.9; set ATP_PYTHON to a newer one"
elif not (importlib.util.find_spec("atp") and importlib.util.find_spec(package)):
    problem = "has no module atp; set ATP_PYTHON to a Python that has it"
if problem:
    print(f"atp plan: {sys.executable} {problem}", file=sys.stderr)
    sys.exit(2)
runpy.run_module(module, run_name="__main__", alter_sys=True)
)";

// This program is bin/atp of this folder: /usr, or build/release of a checkout.
std::filesystem::path prefix() {
  std::error_code missing;
  return std::filesystem::read_symlink("/proc/self/exe", missing).parent_path().parent_path();
}

// Of a program in build/PRESET/bin.
std::optional<std::filesystem::path> checkout() {
  const auto build = prefix().parent_path();
  if (build.filename() != "build") return std::nullopt;
  return build.parent_path();
}

// The checkout's .venv, made by tools/setup, which has torch and the extension.
std::optional<std::string> checkout_interpreter() {
  if (!checkout()) return std::nullopt;
  const auto python = *checkout() / ".venv/bin/python";
  if (access(python.c_str(), X_OK) != 0) return std::nullopt;
  return python.string();
}

// The modules that are installed with the program, so that it needs no installed module
// (cmake/AtpPackage.cmake).
std::string own_modules() {
  return checkout() ? *checkout() / "python" : prefix() / "share/atp/python";
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
  throw CommandError(
      fmt::format("cannot start {}: {}; set ATP_PYTHON to a Python 3.9 or later, which calibrate "
                  "and compare require to have atp",
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

void add_python_commands(const Command& plan) {
  constexpr const char* kMeasuring = "atp.tensor_parallel.calibrate";
  add(plan, "import",
      "Convert the output of `nvidia-smi topo -m`, a topology dumped by NCCL, Slurm's topology or "
      "an ASTRA-sim network to a cluster file",
      {"atp.topology", own_modules()});
  add(plan, "calibrate",
      "Measure the collectives of every mesh, and write the times into the cluster file; every "
      "rank of a job runs it: atp run -n N -- atp plan calibrate ...",
      {kMeasuring, ""});
  add(plan, "compare",
      "Measure a layer's collectives on every mesh, and compare the times with the prediction; "
      "every rank of a job runs it",
      {kMeasuring, "", "--compare"});
}

}  // namespace atp
