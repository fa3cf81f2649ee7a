#include "atp/driver/tcp/tcp_listener.h"

#include <utility>

#include "atp/driver/udp/address.h"

namespace atp {
Result<TcpListener> TcpListener::open(const std::string& at, PortRange range) {
  const Result<Endpoint> wanted = resolve_endpoint(at);
  if (!wanted) return wanted.error();
  const bool within = wanted.value().port == 0 && !range.is_any();
  Result<TcpSocket> socket = within ? open_within(range, wanted.value(), TcpSocket::listen)
                                    : TcpSocket::listen(wanted.value());
  if (!socket) return socket.error();
  const Result<Endpoint> address = socket.value().local();
  if (!address) return address.error();
  return TcpListener(std::move(socket).value(), address.value());
}

}  // namespace atp
