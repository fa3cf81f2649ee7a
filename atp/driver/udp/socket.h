#pragma once

#include <cstdint>
#include <memory>

#include "atp/base/result.h"
#include "atp/driver/udp/own_addresses.h"
#include "atp/driver/udp/port_range.h"
#include "atp/wire/endpoint.h"

// One UDP socket, set up as the protocol needs it:
//
// * non-blocking;
// * never fragmenting: a packet too large for the path is a counted error, not several fragments of
//   which one gets lost;
// * sending whatever the interface carries, even if ICMP has reported a smaller path to the kernel:
//   anybody can forge that, and SentHeads decides which errors to believe;
// * merging received trains (UDP_GRO), ECN-capable, and reporting the packet of each ICMP error;
// * with buffers that hold a window of every worker.

namespace atp {

class UdpSocket {
 public:
  // Binds to `local`; port 0 takes a free port, from the range if one is given. An IPv6 socket on
  // [::] also serves IPv4.
  static Result<UdpSocket> open(const Endpoint& local, PortRange range = {});
  // For a node that answers: on all addresses of this host (0.0.0.0, [::]), each answer leaves from
  // the address that the peer sends to.
  static Result<UdpSocket> listen(const Endpoint& local);

  UdpSocket(UdpSocket&& other) noexcept;
  UdpSocket& operator=(UdpSocket&& other) noexcept;
  ~UdpSocket();

  int fd() const { return fd_; }
  int family() const { return family_; }
  const Endpoint& local() const { return local_; }  // with the actual port
  OwnAddresses* own_addresses() const {
    return own_addresses_.get();
  }  // null: bound to one address
  std::uint64_t receive_drops() const;  // by the kernel, for want of buffer space
  // More than a quarter of the receive buffer is full: this process does not keep up.
  bool receive_queue_is_long() const;

 private:
  UdpSocket(int fd, int family) : fd_(fd), family_(family) {}
  Status configure();
  Status bind_to(const Endpoint& local);

  int fd_ = -1;
  int family_ = 0;
  Endpoint local_;
  std::unique_ptr<OwnAddresses> own_addresses_;
};

}  // namespace atp
