#include "atp/cli/command/machine.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <memory>

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

std::string text_of(const sockaddr* address) {
  if (address == nullptr) return {};
  const void* bytes = nullptr;
  if (address->sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else if (address->sa_family == AF_INET6) {
    bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (bytes == nullptr ||
      inet_ntop(address->sa_family, bytes, text.data(), text.size()) == nullptr) {
    return {};
  }
  return text.data();
}

}  // namespace

std::uint64_t obtainable_memory(const std::string& root) {
  return std::min({machine_limit(root), group_limit(root + "/sys/fs/cgroup/memory.max"),
                   group_limit(root + "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
                   address_space_limit()});
}

std::string interface_with(const std::string& address) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, freeifaddrs);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (text_of(one->ifa_addr) == address) return one->ifa_name;
  }
  return {};
}

}  // namespace atp
