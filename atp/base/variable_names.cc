#include "atp/base/variable_names.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "atp/base/nearest_name.h"

namespace atp {
namespace {

constexpr std::string_view kPrefix = "ATP_";

// Those of docs/use/variables.md, except those of tests (tests/readme/test_variables.py).
constexpr std::array<std::string_view, 27> kNames = {"ATP_ALGORITHM",
                                                     "ATP_COLOCATED_SERVER",
                                                     "ATP_CONGESTION",
                                                     "ATP_DIGEST",
                                                     "ATP_DIGEST_EVERY",
                                                     "ATP_EXACT",
                                                     "ATP_FLIGHT_RECORDER",
                                                     "ATP_HIERARCHY",
                                                     "ATP_FLIGHT_RECORDER_SIZE",
                                                     "ATP_HOST_MEMORY",
                                                     "ATP_HOST_RANKS",
                                                     "ATP_INCARNATION",
                                                     "ATP_JOB",
                                                     "ATP_JOIN_TIMEOUT",
                                                     "ATP_KEY_FILE",
                                                     "ATP_METRICS",
                                                     "ATP_OVERFLOW",
                                                     "ATP_PORT_RANGE",
                                                     "ATP_PYTHON",
                                                     "ATP_ROUTE",
                                                     "ATP_SCALE",
                                                     "ATP_SOCKET_IFNAME",
                                                     "ATP_TIMEOUT",
                                                     "ATP_VALUES_PER_FRAGMENT",
                                                     "ATP_EXPECTED_TIMES",
                                                     "ATP_WILLS",
                                                     "ATP_WIRE"};

}  // namespace

std::vector<std::string> misspelt_variables(const char* const* environment) {
  // Without the prefix, so that it does not count as letters that agree.
  std::array<std::string_view, kNames.size()> endings;
  std::transform(kNames.begin(), kNames.end(), endings.begin(),
                 [](std::string_view name) { return name.substr(kPrefix.size()); });
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
