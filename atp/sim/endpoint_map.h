#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <unordered_map>

#include "atp/wire/endpoint.h"

namespace atp::sim {

struct EndpointHash {
  std::size_t operator()(const Endpoint& endpoint) const {
    std::uint64_t low = 0;
    std::memcpy(&low, endpoint.address.data() + 8, sizeof low);
    return static_cast<std::size_t>((low ^ endpoint.port) * 0x9e3779b97f4a7c15 >> 20);
  }
};

// Which host answers at an endpoint.
using EndpointMap = std::unordered_map<Endpoint, std::uint32_t, EndpointHash>;

}  // namespace atp::sim
