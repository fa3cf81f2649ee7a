#include "atp/driver/udp/route_mtu.h"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "atp/driver/udp/address.h"

namespace atp {
namespace {

Error no_route(const Endpoint& to) {
  return {"no route to " + to_string(to) + ": " + std::strerror(errno)};
}

// A socket for queries to the kernel; it sends nothing to other hosts.
class AskingSocket {
 public:
  AskingSocket(int family, int protocol)
      : fd_(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, protocol)) {}
  ~AskingSocket() {
    if (fd_ >= 0) close(fd_);
  }
  AskingSocket(AskingSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  AskingSocket& operator=(AskingSocket&&) = delete;

  // Returns a connected socket, or the error "no route".
  static Result<AskingSocket> towards(const Endpoint& to) {
    const int family = to.is_ipv4() ? AF_INET : AF_INET6;
    AskingSocket asking(family, 0);
    SocketAddress address{};
    to_socket_address(to, family, address);
    if (asking.fd() < 0 || connect(asking.fd(), &address.base, address.length) != 0) {
      return no_route(to);
    }
    return asking;
  }

  int fd() const { return fd_; }

 private:
  int fd_;
};

// The kernel's routing table entry for one address (rtnetlink(7)).
class RouteAnswer {
 public:
  explicit RouteAnswer(const Endpoint& to) {
    const AskingSocket netlink(AF_NETLINK, NETLINK_ROUTE);
    if (netlink.fd() >= 0 && ask(netlink.fd(), to)) read(netlink.fd());
  }

  // Nothing if the kernel gave no readable answer.
  std::optional<std::size_t> mtu() const { return mtu_; }

 private:
  bool ask(int fd, const Endpoint& to) const {
    struct {
      nlmsghdr header;
      rtmsg route;
      std::array<std::uint8_t, 32> attribute;
    } request{};
    const std::size_t bytes = to.is_ipv4() ? 4 : 16;
    request.header.nlmsg_type = RTM_GETROUTE;
    request.header.nlmsg_flags = NLM_F_REQUEST;
    request.route.rtm_family = to.is_ipv4() ? AF_INET : AF_INET6;
    request.route.rtm_dst_len = static_cast<unsigned char>(8 * bytes);
    // Ask for the route as configured, not for what was learned about single destinations.
    request.route.rtm_flags = RTM_F_FIB_MATCH;
    auto* destination = reinterpret_cast<rtattr*>(request.attribute.data());
    destination->rta_type = RTA_DST;
    destination->rta_len = static_cast<unsigned short>(RTA_LENGTH(bytes));
    std::memcpy(RTA_DATA(destination), to.address.data() + 16 - bytes, bytes);
    request.header.nlmsg_len =
        static_cast<std::uint32_t>(NLMSG_LENGTH(sizeof request.route) + RTA_SPACE(bytes));
    return send(fd, &request, request.header.nlmsg_len, 0) > 0;
  }

  void read(int fd) {
    alignas(nlmsghdr) std::array<std::uint8_t, 8192> answer;
    const ssize_t got = recv(fd, answer.data(), answer.size(), 0);
    const auto* header = reinterpret_cast<const nlmsghdr*>(answer.data());
    if (got < 0 || !NLMSG_OK(header, static_cast<std::size_t>(got)) ||
        header->nlmsg_type != RTM_NEWROUTE) {
      return;
    }
    const auto* route = static_cast<const rtmsg*>(NLMSG_DATA(header));
    read_attributes(RTM_RTA(route), RTM_PAYLOAD(header));
  }

  // Takes all interfaces of a multipath route into account.
  void read_attributes(const rtattr* attribute, std::size_t left) {
    for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
      switch (attribute->rta_type) {
        case RTA_OIF: add_interface(*static_cast<const int*>(RTA_DATA(attribute))); break;
        case RTA_METRICS: read_metrics(attribute); break;
        case RTA_MULTIPATH: read_hops(attribute); break;
        default: break;
      }
    }
  }

  void read_metrics(const rtattr* metrics) {
    const auto* metric = static_cast<const rtattr*>(RTA_DATA(metrics));
    for (std::size_t left = RTA_PAYLOAD(metrics); RTA_OK(metric, left);
         metric = RTA_NEXT(metric, left)) {
      if (metric->rta_type == RTAX_MTU) add(*static_cast<const std::uint32_t*>(RTA_DATA(metric)));
    }
  }

  void read_hops(const rtattr* hops) {
    const auto* hop = static_cast<const rtnexthop*>(RTA_DATA(hops));
    for (std::size_t left = RTA_PAYLOAD(hops);
         left >= sizeof *hop && RTNH_OK(hop, static_cast<int>(left));) {
      add_interface(hop->rtnh_ifindex);
      left -= std::min<std::size_t>(left, RTNH_ALIGN(hop->rtnh_len));
      hop = RTNH_NEXT(hop);
    }
  }

  void add_interface(int index) {
    std::array<char, IF_NAMESIZE> name{};
    if (if_indextoname(static_cast<unsigned>(index), name.data()) == nullptr) return;
    if (const auto mtu = mtu_of_interface(name.data())) add(*mtu);
  }

  void add(std::size_t mtu) {
    if (mtu > 0) mtu_ = std::min(mtu_.value_or(mtu), mtu);
  }

  std::optional<std::size_t> mtu_;
};

}  // namespace

std::optional<std::size_t> mtu_of_interface(const char* name) {
  const AskingSocket asking(AF_INET, 0);
  ifreq request{};
  std::strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
  if (ioctl(asking.fd(), SIOCGIFMTU, &request) != 0 || request.ifr_mtu <= 0) return std::nullopt;
  return static_cast<std::size_t>(request.ifr_mtu);
}

Result<std::size_t> route_mtu(const Endpoint& to) {
  const Result<AskingSocket> asking = AskingSocket::towards(to);
  if (!asking) return asking.error();
  if (const auto mtu = RouteAnswer(to).mtu()) return *mtu;
  return kernels_mtu(to);  // a sandbox may have no routing table
}

Result<std::size_t> kernels_mtu(const Endpoint& to) {
  const Result<AskingSocket> asking = AskingSocket::towards(to);
  if (!asking) return asking.error();
  int mtu = 0;
  socklen_t length = sizeof mtu;
  const int level = to.is_ipv4() ? SOL_IP : SOL_IPV6;
  const int option = to.is_ipv4() ? IP_MTU : IPV6_MTU;
  if (getsockopt(asking.value().fd(), level, option, &mtu, &length) != 0) return no_route(to);
  return static_cast<std::size_t>(mtu);
}

Result<Endpoint> route_source(const Endpoint& to) {
  const Result<AskingSocket> asking = AskingSocket::towards(to);
  if (!asking) return asking.error();
  SocketAddress own{};
  own.length = sizeof own.ipv6;
  if (getsockname(asking.value().fd(), &own.base, &own.length) != 0) return no_route(to);
  Endpoint source = to_endpoint(own);
  source.port = 0;
  return source;
}

}  // namespace atp
