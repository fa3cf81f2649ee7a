#include "atp/driver/udp/path_mtu.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "atp/driver/udp/address.h"
#include "atp/driver/udp/path_probe.h"
#include "atp/driver/udp/route_mtu.h"
#include "atp/wire/packet.h"

namespace atp {
namespace {

constexpr std::size_t kIpv6AndUdpBytes = 48;

bool receives_on(const Endpoint& local, const ifaddrs& interface) {
  if ((interface.ifa_flags & IFF_UP) == 0 || interface.ifa_addr == nullptr) return false;
  const int family = interface.ifa_addr->sa_family;
  if (family != AF_INET && family != AF_INET6) return false;
  if (is_wildcard(local)) return (interface.ifa_flags & IFF_LOOPBACK) == 0;
  SocketAddress address{};
  address.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&address.base, interface.ifa_addr, address.length);
  return to_endpoint(address).address == local.address;
}

}  // namespace

Result<std::size_t> path_mtu(const Endpoint& to, PortRange ports) {
  Result<std::size_t> route = route_mtu(to);
  if (!route) return route;
  const Result<std::size_t> rumour = kernels_mtu(to);
  if (!rumour) return rumour.error();
  if (values_for_mtu(rumour.value()) >= values_for_mtu(route.value())) return route;
  return probe_path(to, route.value(), ports);
}

Result<std::size_t> interface_mtu(const Endpoint& local) {
  if (is_loopback(local)) return route_mtu(local);  // no interface lists all of 127.0.0.0/8
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) {
    return Error{std::string("cannot list the interfaces: ") + std::strerror(errno)};
  }
  std::optional<std::size_t> smallest;
  for (const ifaddrs* i = interfaces; i != nullptr; i = i->ifa_next) {
    if (!receives_on(local, *i)) continue;
    const std::optional<std::size_t> mtu = mtu_of_interface(i->ifa_name);
    if (mtu) smallest = std::min(smallest.value_or(*mtu), *mtu);
  }
  freeifaddrs(interfaces);
  if (smallest) return *smallest;
  if (is_wildcard(local)) return route_mtu(Endpoint::ipv4(127, 0, 0, 1, 1));
  return Error{"no interface of this machine has the address of " + to_string(local)};
}

std::size_t mtu_for_values(std::size_t values, std::size_t bitmap_words, std::size_t tag_bytes) {
  return kIpv6AndUdpBytes + atp_body_offset(static_cast<std::uint32_t>(bitmap_words)) + 4 * values +
         tag_bytes;
}

std::uint16_t values_for_mtu(std::size_t mtu_bytes, std::size_t bitmap_words,
                             std::size_t tag_bytes) {
  const std::size_t overhead = mtu_for_values(0, bitmap_words, tag_bytes);
  if (mtu_bytes <= overhead) return 0;
  const std::size_t values = (mtu_bytes - overhead) / 4 / 2 * 2;
  return static_cast<std::uint16_t>(std::min<std::size_t>(values, ATP_VALUES_MAX));
}

}  // namespace atp
