#include "atp/cli/memory_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace atp {
namespace {

constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

// "MemAvailable:   21925936 kB"
std::uint64_t machine_limit(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string name;
  for (std::uint64_t kilobytes = 0; file >> name >> kilobytes;) {
    if (name == "MemAvailable:") return kilobytes * 1024;
    std::getline(file, name);  // the unit, where there is one
  }
  return kNone;
}

// One number, or "max".
std::uint64_t group_limit(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t bytes = 0;
  return file >> bytes ? bytes : kNone;
}

std::uint64_t address_space_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNone;
  return limit.rlim_cur;
}

}  // namespace

std::uint64_t obtainable_memory(const std::string& root) {
  return std::min({machine_limit(root), group_limit(root + "/sys/fs/cgroup/memory.max"),
                   group_limit(root + "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
                   address_space_limit()});
}

}  // namespace atp
