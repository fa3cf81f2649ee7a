#include "atp/driver/tcp/tcp_listener.h"

#include <unistd.h>

#include <utility>

#include "atp/driver/udp/address.h"

namespace atp {
namespace {

// The processes of a host begin at different ports, so that few try one that is taken.
Result<TcpSocket> listen_within(Endpoint at, PortRange range) {
  const auto ports = static_cast<std::uint32_t>(range.last - range.first + 1);
  const auto begin = static_cast<std::uint32_t>(getpid()) % ports;
  Error last{"no port"};
  for (std::uint32_t i = 0; i < ports; ++i) {
    at.port = static_cast<std::uint16_t>(range.first + (begin + i) % ports);
    Result<TcpSocket> socket = TcpSocket::listen(at);
    if (socket) return socket;
    last = socket.error();
  }
  return Error{"no port from " + std::to_string(range.first) + " to " + std::to_string(range.last) +
               " is free: " + last.message};
}

}  // namespace

Result<TcpListener> TcpListener::open(const std::string& at, PortRange range) {
  const Result<Endpoint> wanted = resolve_endpoint(at);
  if (!wanted) return wanted.error();
  const bool within = wanted.value().port == 0 && range.first != 0;
  Result<TcpSocket> socket =
      within ? listen_within(wanted.value(), range) : TcpSocket::listen(wanted.value());
  if (!socket) return socket.error();
  const Result<Endpoint> address = socket.value().local();
  if (!address) return address.error();
  return TcpListener(std::move(socket).value(), address.value());
}

}  // namespace atp
