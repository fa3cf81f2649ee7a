#pragma once

#include <string>

#include "atp/driver/tcp/tcp_socket.h"
#include "atp/driver/udp/port_range.h"

// Where a rank waits for others. Made first, so that its address can be told.

namespace atp {

class TcpListener {
 public:
  // "HOST:PORT"; port 0 takes a free one, of the range if there is one.
  static Result<TcpListener> open(const std::string& at, PortRange range = {});

  const Endpoint& address() const { return address_; }
  const TcpSocket& socket() const { return socket_; }

 private:
  TcpListener(TcpSocket socket, const Endpoint& address)
      : socket_(std::move(socket)), address_(address) {}

  TcpSocket socket_;
  Endpoint address_;
};

}  // namespace atp
