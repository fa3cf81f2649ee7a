#pragma once

#include <thread>

#include "atp/driver/tcp/acceptor.h"

// For tests: the next connection to a listening socket, or a closed one if none comes in time.

namespace atp {

inline TcpSocket accept_one(const TcpSocket& listener, SteadyTime until) {
  for (; std::chrono::steady_clock::now() < until;
       std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    TcpSocket socket(Acceptor::accept_without_waiting(listener.fd()));
    if (socket.is_open()) return socket;
  }
  return {};
}

}  // namespace atp
