#include "atp/driver/tcp/tcp_socket.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "atp/base/errno_text.h"
#include "atp/base/interrupt.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBetweenAttempts{50};
constexpr const char* kTooLate = "no answer in time";

Error system_error(int error) { return {error == ETIMEDOUT ? kTooLate : errno_text(error)}; }

int family_of(const Endpoint& endpoint) { return endpoint.is_ipv4() ? AF_INET : AF_INET6; }

Result<TcpSocket> open_for(const Endpoint& endpoint) {
  const int fd = socket(family_of(endpoint), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error(errno);
  return TcpSocket(fd);
}

// Retries after a signal. Returning early would make connect() take a pending connection for an
// established one.
bool wait_for(int fd, short events, SteadyTime until) {
  for (;;) {
    const auto left =
        std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now()).count();
    pollfd waited{fd, events, 0};
    const auto slice = std::min<long long>(left, kBetweenInterruptChecks.count());
    const int ready = poll(&waited, 1, static_cast<int>(std::max<long long>(slice, 0)));
    if (ready > 0 || (ready < 0 && errno != EINTR)) return ready > 0;
    if (left <= 0 || interrupted()) return false;
  }
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// The result of a connect() that was in progress: 0 or its errno.
int outcome_of(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

// Returns 0 or an errno.
int try_to_connect(const TcpSocket& socket, const Endpoint& to, SteadyTime until) {
  SocketAddress address{};
  to_socket_address(to, family_of(to), address);
  if (::connect(socket.fd(), &address.base, address.length) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  return wait_for(socket.fd(), POLLOUT, until) ? outcome_of(socket.fd()) : ETIMEDOUT;
}

Result<Endpoint> end_of(int fd, int (*name)(int, sockaddr*, socklen_t*)) {
  SocketAddress address{};
  address.length = sizeof(address.ipv6);
  if (name(fd, &address.base, &address.length) != 0) return system_error(errno);
  return to_endpoint(address);
}

}  // namespace

TcpSocket::TcpSocket(TcpSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

TcpSocket& TcpSocket::operator=(TcpSocket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void TcpSocket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Result<TcpSocket> TcpSocket::listen(const Endpoint& at) {
  Result<TcpSocket> opened = open_for(at);
  if (!opened) return opened;
  const int fd = opened.value().fd();
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  SocketAddress address{};
  to_socket_address(at, family_of(at), address);
  if (bind(fd, &address.base, address.length) != 0 || ::listen(fd, SOMAXCONN) != 0) {
    return Error{"cannot listen on TCP " + to_string(at) + ": " + bind_text(errno)};
  }
  return opened;
}

Result<TcpSocket> TcpSocket::connect_once(const Endpoint& to, SteadyTime until) {
  Result<TcpSocket> opened = open_for(to);
  if (!opened) return opened;
  const int error = try_to_connect(opened.value(), to, until);
  if (error != 0) return system_error(error);
  opened.value().send_at_once();
  return opened;
}

Result<TcpSocket> TcpSocket::begin_connect(const Endpoint& to) {
  Result<TcpSocket> opened = open_for(to);
  if (!opened) return opened;
  const int error = try_to_connect(opened.value(), to, SteadyTime{});
  if (error != 0 && error != ETIMEDOUT) return system_error(error);
  opened.value().send_at_once();
  return opened;
}

int TcpSocket::connect_error() const { return outcome_of(fd_); }

Result<TcpSocket> TcpSocket::connect(const Endpoint& to, SteadyTime until) {
  while (true) {
    Result<TcpSocket> connected = connect_once(to, until);
    // Keep trying: the peer may not listen yet, or its machine may not be up yet.
    if (connected || std::chrono::steady_clock::now() + kBetweenAttempts >= until) {
      return connected;
    }
    std::this_thread::sleep_for(kBetweenAttempts);
  }
}

void TcpSocket::send_at_once() const {
  const int yes = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

Status TcpSocket::send_all(std::span<const std::byte> bytes, SteadyTime until) const {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (!would_block()) {
      return system_error(errno);
    } else if (!wait_for(fd_, POLLOUT, until)) {
      return Error{kTooLate};
    }
  }
  return ok_status();
}

Status TcpSocket::receive_all(std::span<std::byte> bytes, SteadyTime until) const {
  while (!bytes.empty()) {
    const ssize_t got = recv(fd_, bytes.data(), bytes.size(), 0);
    if (got == 0) return Error{"the connection was closed"};
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (!would_block()) {
      return system_error(errno);
    } else if (!wait_for(fd_, POLLIN, until)) {
      return Error{kTooLate};
    }
  }
  return ok_status();
}

Result<Endpoint> TcpSocket::local() const { return end_of(fd_, getsockname); }
Result<Endpoint> TcpSocket::peer() const { return end_of(fd_, getpeername); }

}  // namespace atp
