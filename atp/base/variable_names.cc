#include "atp/base/variable_names.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "atp/base/nearest_name.h"
#include "atp/base/variables.h"

namespace atp {
namespace {

constexpr std::string_view kPrefix = "ATP_";

// Without the prefix, so that it does not count as letters that agree.
std::vector<std::string_view> known_endings() {
  std::vector<std::string_view> endings;
  for (const Variable& each : variables()) {
    if (!each.name.starts_with(kPrefix) || each.readers == kTests) continue;
    endings.push_back(each.name.substr(kPrefix.size()));
  }
  return endings;
}

}  // namespace

std::vector<std::string> misspelt_variables(const char* const* environment) {
  const std::vector<std::string_view> endings = known_endings();
  std::vector<std::string> found;
  for (; *environment != nullptr; ++environment) {
    const std::string_view setting = *environment;
    const std::string_view name = setting.substr(0, setting.find('='));
    if (!name.starts_with(kPrefix)) continue;
    const std::string_view ending = name.substr(kPrefix.size());
    const std::string_view near = nearest_name(ending, endings);
    if (near.empty() || near == ending) continue;
    found.push_back(std::string(name) + " is unknown; did you mean " + std::string(kPrefix) +
                    std::string(near) + "?");
  }
  return found;
}

std::vector<std::string> untold_misspelt_variables() {
  static std::atomic<bool> told{false};
  const char* rank = std::getenv("LOCAL_RANK");
  const bool speaks = rank == nullptr || *rank == '\0' || std::string_view(rank) == "0";
  // Only `atp run` sets ATP_WILLS.
  if (!speaks || std::getenv("ATP_WILLS") != nullptr || told.exchange(true)) return {};
  return misspelt_variables(environ);
}

}  // namespace atp
