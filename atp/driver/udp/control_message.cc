#include "atp/driver/udp/control_message.h"

namespace atp {

bool ask_for_own_address(int fd, int family) {
  const int on = 1;
  // On an IPv6 socket this one covers IPv4 as well, as ::ffff:a.b.c.d.
  return family == AF_INET ? setsockopt(fd, SOL_IP, IP_PKTINFO, &on, sizeof on) == 0
                           : setsockopt(fd, SOL_IPV6, IPV6_RECVPKTINFO, &on, sizeof on) == 0;
}

std::optional<OwnAddresses::Address> read_own_address(const cmsghdr& header) {
  Endpoint own = Endpoint::ipv4(0, 0, 0, 0, 0);
  if (header.cmsg_level == SOL_IP && header.cmsg_type == IP_PKTINFO) {
    in_pktinfo info{};
    std::memcpy(&info, CMSG_DATA(&header), sizeof info);
    std::memcpy(own.address.data() + 12, &info.ipi_spec_dst, 4);
    return own.address;
  }
  if (header.cmsg_level == SOL_IPV6 && header.cmsg_type == IPV6_PKTINFO) {
    in6_pktinfo info{};
    std::memcpy(&info, CMSG_DATA(&header), sizeof info);
    std::memcpy(own.address.data(), &info.ipi6_addr, 16);
    return own.address;
  }
  return std::nullopt;
}

// The interface is left to the routing: a packet may come in on one and its answer leave by
// another.
void append_own_address(msghdr& message, int family, const OwnAddresses::Address& own) {
  if (family == AF_INET) {
    in_pktinfo info{};
    std::memcpy(&info.ipi_spec_dst, own.data() + 12, 4);
    append_control(message, SOL_IP, IP_PKTINFO, info);
  } else {
    in6_pktinfo info{};
    std::memcpy(&info.ipi6_addr, own.data(), 16);
    append_control(message, SOL_IPV6, IPV6_PKTINFO, info);
  }
}

}  // namespace atp
