#include "atp/driver/udp/path_mtu.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "atp/driver/udp/address.h"
#include "atp/wire/packet.h"

namespace atp {
namespace {

constexpr std::size_t kIpv6AndUdpBytes = 48;

// A socket for asking only; it never sends.
class ProbeSocket {
 public:
  explicit ProbeSocket(int family) : fd_(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}
  ~ProbeSocket() {
    if (fd_ >= 0) close(fd_);
  }
  ProbeSocket(const ProbeSocket&) = delete;
  ProbeSocket& operator=(const ProbeSocket&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Error no_route(const Endpoint& to) {
  return {"no route to " + to_string(to) + ": " + std::strerror(errno)};
}

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

std::optional<std::size_t> mtu_of(const ProbeSocket& probe, const char* interface) {
  ifreq request{};
  std::strncpy(request.ifr_name, interface, sizeof request.ifr_name - 1);
  if (ioctl(probe.fd(), SIOCGIFMTU, &request) != 0 || request.ifr_mtu <= 0) return std::nullopt;
  return static_cast<std::size_t>(request.ifr_mtu);
}

}  // namespace

Result<std::size_t> path_mtu(const Endpoint& to) {
  const int family = to.is_ipv4() ? AF_INET : AF_INET6;
  const ProbeSocket probe(family);
  SocketAddress address{};
  to_socket_address(to, family, address);
  if (probe.fd() < 0 || connect(probe.fd(), &address.base, address.length) != 0) {
    return no_route(to);
  }
  int mtu = 0;
  socklen_t length = sizeof mtu;
  const int level = family == AF_INET ? SOL_IP : SOL_IPV6;
  const int option = family == AF_INET ? IP_MTU : IPV6_MTU;
  if (getsockopt(probe.fd(), level, option, &mtu, &length) != 0) return no_route(to);
  return static_cast<std::size_t>(mtu);
}

Result<std::size_t> interface_mtu(const Endpoint& local) {
  if (is_loopback(local)) return path_mtu(local);  // 127.0.0.0/8 is not a list of addresses
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) {
    return Error{std::string("cannot list the interfaces: ") + std::strerror(errno)};
  }
  const ProbeSocket probe(AF_INET);
  std::optional<std::size_t> smallest;
  for (const ifaddrs* i = interfaces; i != nullptr; i = i->ifa_next) {
    if (!receives_on(local, *i)) continue;
    const std::optional<std::size_t> mtu = mtu_of(probe, i->ifa_name);
    if (mtu) smallest = std::min(smallest.value_or(*mtu), *mtu);
  }
  freeifaddrs(interfaces);
  if (smallest) return *smallest;
  if (is_wildcard(local)) return path_mtu(Endpoint::ipv4(127, 0, 0, 1, 1));
  return Error{"no interface of this machine has the address of " + to_string(local)};
}

std::size_t mtu_for_values(std::size_t values, std::size_t bitmap_words) {
  return kIpv6AndUdpBytes + atp_body_offset(static_cast<std::uint32_t>(bitmap_words)) + 4 * values;
}

std::uint16_t values_for_mtu(std::size_t mtu_bytes, std::size_t bitmap_words) {
  const std::size_t overhead = mtu_for_values(0, bitmap_words);
  if (mtu_bytes <= overhead) return 0;
  const std::size_t values = (mtu_bytes - overhead) / 4 / 2 * 2;
  return static_cast<std::uint16_t>(std::min<std::size_t>(values, ATP_VALUES_MAX));
}

}  // namespace atp
