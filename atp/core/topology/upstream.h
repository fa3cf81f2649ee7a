#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "atp/wire/endpoint.h"

// Which next hops a switch may send to (`--upstream`, docs/inside/protocol §2). Without such a
// list, a switch that obeys the route in a JOIN would be an open relay.

namespace atp {

// An address prefix: 10.0.0.0/8 is the IPv4-mapped address with 96 + 8 bits.
struct Prefix {
  std::array<std::uint8_t, 16> address{};
  std::uint8_t bits = 0;

  bool contains(const Endpoint& endpoint) const {
    for (std::size_t i = 0; i < 16; ++i) {
      const int left = bits - static_cast<int>(8 * i);
      if (left <= 0) return true;
      const auto mask = static_cast<std::uint8_t>(left >= 8 ? 0xff : 0xff << (8 - left));
      if (((address[i] ^ endpoint.address[i]) & mask) != 0) return false;
    }
    return true;
  }
  bool operator==(const Prefix&) const = default;
};

class UpstreamPolicy {
 public:
  UpstreamPolicy() = default;
  explicit UpstreamPolicy(std::vector<Prefix> allowed) : allowed_(std::move(allowed)) {}

  bool allows(const Endpoint& endpoint) const {
    for (const Prefix& prefix : allowed_) {
      if (prefix.contains(endpoint)) return endpoint.port != 0;
    }
    return false;
  }
  bool operator==(const UpstreamPolicy&) const = default;

 private:
  std::vector<Prefix> allowed_;
};

}  // namespace atp
