#include "atp/cli/doctor/probe_socket.h"

#include <linux/errqueue.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "atp/driver/udp/address.h"
#include "atp/wire/host_text.h"

namespace atp {
namespace {

bool set(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

bool configure(int fd, int family) {
  if (family == AF_INET6) {
    return set(fd, SOL_IPV6, IPV6_RECVERR, 1) &&
           set(fd, SOL_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
  }
  return set(fd, SOL_IP, IP_RECVERR, 1) && set(fd, SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
}

Refused refusal_by_icmp(std::uint8_t code) {
  switch (code) {
    case ICMP_PORT_UNREACH: return Refused::kNobodyListens;
    case ICMP_NET_ANO:
    case ICMP_HOST_ANO:
    case ICMP_PKT_FILTERED: return Refused::kProhibited;
    default: return Refused::kUnreachable;
  }
}

Refused refusal_by_icmpv6(std::uint8_t code) {
  switch (code) {
    case ICMP6_DST_UNREACH_NOPORT: return Refused::kNobodyListens;
    case ICMP6_DST_UNREACH_ADMIN: return Refused::kProhibited;
    default: return Refused::kUnreachable;
  }
}

std::string reporter_of(const sock_extended_err& error) {
  SocketAddress address{};
  const sockaddr* offender = SO_EE_OFFENDER(&error);
  if (offender->sa_family == AF_INET) {
    std::memcpy(&address.ipv4, offender, sizeof address.ipv4);
  } else if (offender->sa_family == AF_INET6) {
    std::memcpy(&address.ipv6, offender, sizeof address.ipv6);
  } else {
    return "";
  }
  return host_text(to_endpoint(address));
}

}  // namespace

Result<ProbeSocket> ProbeSocket::connect(const Endpoint& to) {
  const int family = to.is_ipv4() ? AF_INET : AF_INET6;
  const int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Error{std::strerror(errno)};
  ProbeSocket socket(fd);
  SocketAddress address{};
  to_socket_address(to, family, address);
  if (!configure(fd, family) || ::connect(fd, &address.base, address.length) != 0) {
    return Error{std::strerror(errno)};
  }
  SocketAddress own{};
  own.length = sizeof own.ipv6;
  if (getsockname(fd, &own.base, &own.length) != 0) return Error{std::strerror(errno)};
  socket.own_host_ = host_text(to_endpoint(own));
  return socket;
}

ProbeSocket::ProbeSocket(ProbeSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      own_host_(std::move(other.own_host_)),
      bytes_(std::move(other.bytes_)) {}

ProbeSocket::~ProbeSocket() {
  if (fd_ >= 0) close(fd_);
}

Refused ProbeSocket::send(std::span<const std::uint8_t> packet) const {
  // send() fails once with the error of an earlier packet, which listen() then reports as well.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (::send(fd_, packet.data(), packet.size(), 0) >= 0) return Refused::kNo;
    if (errno == EPERM) return Refused::kByThisHost;
  }
  return Refused::kNo;
}

ProbeSocket::Heard ProbeSocket::listen(Time until) {
  for (;;) {
    if (Heard error = next_error(); !error.nothing()) return error;
    const ssize_t size = recv(fd_, bytes_.data(), bytes_.size(), 0);
    if (size > 0) return {.packet = {bytes_.data(), static_cast<std::size_t>(size)}};
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return {};
    pollfd waits{fd_, POLLIN, 0};
    poll(&waits, 1, static_cast<int>(left.count()));
  }
}

ProbeSocket::Heard ProbeSocket::next_error() {
  struct alignas(cmsghdr) {
    std::uint8_t bytes[512];
  } control;
  msghdr message{};
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  if (recvmsg(fd_, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return {};
  Heard heard;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_type != IP_RECVERR && c->cmsg_type != IPV6_RECVERR) continue;
    alignas(sock_extended_err) std::uint8_t bytes[sizeof(sock_extended_err) + sizeof(sockaddr_in6)];
    std::memcpy(bytes, CMSG_DATA(c), std::min(sizeof bytes, c->cmsg_len - CMSG_LEN(0)));
    const auto& error = *reinterpret_cast<const sock_extended_err*>(bytes);
    if (error.ee_errno == EMSGSIZE) {
      heard.too_big_for = error.ee_info;
      continue;
    }
    // The rest comes from this host itself: no host answered for the address.
    heard.refused = error.ee_origin == SO_EE_ORIGIN_ICMP    ? refusal_by_icmp(error.ee_code)
                    : error.ee_origin == SO_EE_ORIGIN_ICMP6 ? refusal_by_icmpv6(error.ee_code)
                                                            : Refused::kUnreachable;
    heard.refused_by = reporter_of(error);
  }
  return heard;
}

}  // namespace atp
