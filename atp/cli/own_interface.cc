#include "atp/cli/own_interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <array>
#include <memory>

namespace atp {
namespace {

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
