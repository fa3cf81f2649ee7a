#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "atp/driver/udp/endpoint_hash.h"
#include "atp/wire/endpoint.h"

// A socket bound to all addresses of its host (0.0.0.0, [::]) would answer from the address that
// the kernel's routing prefers, but a worker drops packets from any address other than the one it
// sends to. So such a socket remembers which local address each peer sends to, and answers from it.

namespace atp {

class OwnAddresses {
 public:
  using Address = std::array<std::uint8_t, 16>;  // as in Endpoint, the port is the socket's

  // Strangers can forge any number of peers. When there are too many, all are forgotten; the real
  // ones are learned again from their next packet.
  static constexpr std::size_t kMaxPeers = 65536;

  void learn(const Endpoint& peer, const Address& own) {
    const auto known = by_peer_.find(peer);
    if (known != by_peer_.end()) {
      known->second = own;
      return;
    }
    if (by_peer_.size() >= kMaxPeers) by_peer_.clear();
    by_peer_.emplace(peer, own);
  }

  // Null for a peer that has sent nothing: the kernel chooses. Valid until learn().
  const Address* find(const Endpoint& peer) const {
    const auto known = by_peer_.find(peer);
    return known == by_peer_.end() ? nullptr : &known->second;
  }

 private:
  std::unordered_map<Endpoint, Address, EndpointHash> by_peer_;
};

}  // namespace atp
