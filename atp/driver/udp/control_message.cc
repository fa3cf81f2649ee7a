#include "atp/driver/udp/control_message.h"

#include <netinet/ip.h>

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

// Leaves the interface to routing: an answer may leave by an interface other than that of its
// packet.
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

void use_ecn(int fd, int family) {
  const int capable = IPTOS_ECN_ECT0;
  const int on = 1;
  // On an IPv6 socket these govern IPv4-mapped addresses.
  setsockopt(fd, SOL_IP, IP_TOS, &capable, sizeof capable);
  setsockopt(fd, SOL_IP, IP_RECVTOS, &on, sizeof on);
  if (family == AF_INET) return;
  setsockopt(fd, SOL_IPV6, IPV6_TCLASS, &capable, sizeof capable);
  setsockopt(fd, SOL_IPV6, IPV6_RECVTCLASS, &on, sizeof on);
}

bool congestion_experienced(const cmsghdr& header) {
  const bool ipv4 = header.cmsg_level == SOL_IP && header.cmsg_type == IP_TOS;
  const bool ipv6 = header.cmsg_level == SOL_IPV6 && header.cmsg_type == IPV6_TCLASS;
  if (!ipv4 && !ipv6) return false;
  int tos = 0;  // IPv4 writes a single byte
  std::memcpy(&tos, CMSG_DATA(&header), ipv4 ? 1 : sizeof tos);
  return (tos & IPTOS_ECN_MASK) == IPTOS_ECN_CE;
}

}  // namespace atp
