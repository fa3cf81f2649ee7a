#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "experiments/papers/slot_pool/pool_packet.h"
#include "experiments/papers/slot_pool/pool_worker.h"

// A UDP socket that sends and receives packets of the pool in batches.

namespace slot_pool {

// ADDRESS:PORT; nothing if it is not one.
std::optional<sockaddr_in> parse_address(const char* text);

class PoolSocket {
 public:
  // Exits with a message if that fails.
  explicit PoolSocket(const sockaddr_in* listen_at);
  PoolSocket(const PoolSocket&) = delete;
  PoolSocket& operator=(const PoolSocket&) = delete;
  ~PoolSocket();

  // Sends with the next flush().
  void send(const PoolPacket& packet, const sockaddr_in& to) { outgoing_.push_back({to, packet}); }
  // What does not fit into the socket's buffer is lost, as it would be in a full queue.
  void flush();
  // Waits until `due` for packets, and hands over a batch of those that have arrived.
  using Handle = std::function<void(const PoolPacket&, const sockaddr_in& from)>;
  void receive(std::optional<Time> due, const Handle& handle);
  std::uint64_t unsent() const { return unsent_; }

 private:
  struct Datagram {
    sockaddr_in peer;
    PoolPacket packet;
  };

  int fd_;
  std::vector<Datagram> outgoing_, incoming_;
  std::uint64_t unsent_ = 0;
};

}  // namespace slot_pool
