#include "atp/driver/udp/socket.h"

#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "atp/base/errno_text.h"
#include "atp/driver/udp/address.h"
#include "atp/driver/udp/control_message.h"

namespace atp {
namespace {

constexpr int kBufferBytes = 4 << 20;

bool set_option(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

// *FORCE exceeds the system's limit but needs a privilege; without it the limit applies.
void set_buffer(int fd, int forced_option, int option) {
  if (!set_option(fd, SOL_SOCKET, forced_option, kBufferBytes)) {
    set_option(fd, SOL_SOCKET, option, kBufferBytes);
  }
}

using MemoryInfo = std::array<std::uint32_t, SK_MEMINFO_VARS>;

std::optional<MemoryInfo> memory_info(int fd) {
  MemoryInfo info{};
  socklen_t length = sizeof info;
  if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info.data(), &length) != 0) return std::nullopt;
  return info;
}

Error cannot_set_up() {
  return {std::string("cannot set up a UDP socket: ") + std::strerror(errno)};
}

Error cannot_listen(const Endpoint& local, int problem) {
  const std::string at = to_string(local);
  if (problem != EADDRINUSE) return {"cannot listen on " + at + ": " + bind_text(problem)};
  return {"cannot listen on " + at + ": address already in use; `atp status " + at +
          "` shows whether an atp switch or server runs there; choose another port (--listen, or "
          "`port:` in the cluster file)"};
}

}  // namespace

Result<UdpSocket> UdpSocket::open(const Endpoint& local, PortRange range) {
  if (local.port == 0 && !range.is_any()) {
    return open_within(range, local, [](const Endpoint& at) { return open(at); });
  }
  const int family = local.is_ipv4() ? AF_INET : AF_INET6;
  const int fd = ::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return Error{"cannot open a UDP socket: " + errno_text(errno)};
  UdpSocket socket(fd, family);
  if (const Status configured = socket.configure(); !configured) return configured.error();
  if (const Status bound = socket.bind_to(local); !bound) return bound.error();
  return socket;
}

Result<UdpSocket> UdpSocket::listen(const Endpoint& local) {
  Result<UdpSocket> socket = open(local);
  if (!socket || !is_wildcard(local)) return socket;
  if (!ask_for_own_address(socket.value().fd(), socket.value().family())) return cannot_set_up();
  socket.value().own_addresses_ = std::make_unique<OwnAddresses>();
  return socket;
}

Status UdpSocket::configure() {
  set_buffer(fd_, SO_RCVBUFFORCE, SO_RCVBUF);
  set_buffer(fd_, SO_SNDBUFFORCE, SO_SNDBUF);
  set_option(fd_, SOL_UDP, UDP_GRO, 1);  // a kernel without it delivers packets singly
  use_ecn(fd_, family_);
  bool ok = true;
  if (family_ == AF_INET6) {
    ok = set_option(fd_, SOL_IPV6, IPV6_V6ONLY, 0) && set_option(fd_, SOL_IPV6, IPV6_RECVERR, 1) &&
         set_option(fd_, SOL_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
  }
  // On an IPv6 socket these apply to IPv4-mapped addresses.
  ok = ok && set_option(fd_, SOL_IP, IP_RECVERR, 1) &&
       set_option(fd_, SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
  if (!ok) return cannot_set_up();
  return ok_status();
}

Status UdpSocket::bind_to(const Endpoint& local) {
  SocketAddress address{};
  to_socket_address(local, family_, address);
  if (bind(fd_, &address.base, address.length) != 0) return cannot_listen(local, errno);
  address.length = sizeof(address.ipv6);
  if (getsockname(fd_, &address.base, &address.length) != 0) return cannot_listen(local, errno);
  local_ = to_endpoint(address);
  return ok_status();
}

UdpSocket::UdpSocket(UdpSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      family_(other.family_),
      local_(other.local_),
      own_addresses_(std::move(other.own_addresses_)) {}

UdpSocket& UdpSocket::operator=(UdpSocket&& other) noexcept {
  std::swap(fd_, other.fd_);
  family_ = other.family_;
  local_ = other.local_;
  own_addresses_ = std::move(other.own_addresses_);
  return *this;
}

UdpSocket::~UdpSocket() {
  if (fd_ >= 0) close(fd_);
}

std::uint64_t UdpSocket::receive_drops() const {
  const std::optional<MemoryInfo> info = memory_info(fd_);
  return info ? (*info)[SK_MEMINFO_DROPS] : 0;
}

bool UdpSocket::receive_queue_is_long() const {
  const std::optional<MemoryInfo> info = memory_info(fd_);
  return info && (*info)[SK_MEMINFO_RMEM_ALLOC] > (*info)[SK_MEMINFO_RCVBUF] / 4;
}

}  // namespace atp
