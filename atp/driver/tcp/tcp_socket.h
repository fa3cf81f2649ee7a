#pragma once

#include <chrono>
#include <optional>
#include <span>

#include "atp/base/result.h"
#include "atp/wire/endpoint.h"

// A TCP socket: non-blocking, without Nagle's delay, closed by the destructor. acceptor.h accepts
// connections.

namespace atp {

using SteadyTime = std::chrono::steady_clock::time_point;

class TcpSocket {
 public:
  TcpSocket() = default;
  explicit TcpSocket(int fd) : fd_(fd) {}
  TcpSocket(TcpSocket&& other) noexcept;
  TcpSocket& operator=(TcpSocket&& other) noexcept;
  ~TcpSocket() { close(); }

  // Listens at `at`; port 0 takes a free port.
  static Result<TcpSocket> listen(const Endpoint& at);
  // The error of both gives the reason but not the peer. connect() retries until it succeeds or
  // time runs out.
  static Result<TcpSocket> connect_once(const Endpoint& to, SteadyTime until);
  static Result<TcpSocket> connect(const Endpoint& to, SteadyTime until);
  // Does not wait. Once the socket is writable, connect_error() returns the outcome.
  static Result<TcpSocket> begin_connect(const Endpoint& to);
  int connect_error() const;  // 0, or an errno
  // Without Nagle's delay: for a connection from acceptor.h.
  void send_at_once() const;

  // Both transfer everything or return an error.
  Status send_all(std::span<const std::byte> bytes, SteadyTime until) const;
  Status receive_all(std::span<std::byte> bytes, SteadyTime until) const;

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  Result<Endpoint> local() const;
  Result<Endpoint> peer() const;
  void close();

 private:
  int fd_ = -1;
};

}  // namespace atp
