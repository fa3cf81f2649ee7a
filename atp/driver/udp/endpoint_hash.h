#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "atp/wire/endpoint.h"

namespace atp {

// For hash tables of endpoints. The low bits are as good as the high ones.
struct EndpointHash {
  std::size_t operator()(const Endpoint& endpoint) const {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    std::memcpy(&high, endpoint.address.data(), 8);
    std::memcpy(&low, endpoint.address.data() + 8, 8);
    const std::uint64_t mixed = (high ^ std::rotl(low, 29) ^ endpoint.port) * 0x9e3779b97f4a7c15;
    return static_cast<std::size_t>(mixed >> 20);
  }
};

}  // namespace atp
