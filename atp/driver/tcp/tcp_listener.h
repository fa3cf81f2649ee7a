#pragma once

#include <string>

#include "atp/driver/tcp/tcp_socket.h"
#include "atp/driver/udp/port_range.h"

// The socket on which a rank waits for connections from other ranks. A rank opens it before
// anything else, so that it can announce the address.

namespace atp {

class TcpListener {
 public:
  // `at` is "HOST:PORT"; port 0 takes a free port, from the range if one is given.
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
