#pragma once

#include <cstddef>
#include <cstdint>

// SwitchML's packet (NSDI '21, §3.3 and Algorithm 3): a worker's values for one slot of the pool,
// or their sum. Both ends are on one machine, so its byte order is that of the wire.

namespace slot_pool {

inline constexpr std::size_t kValues = 350;  // as many as in the product's packets
inline constexpr std::uint32_t kMaxWorkers = 64;

struct PoolPacket {
  std::uint32_t rank = 0;   // of the worker that sent it; an answer keeps the last one's
  std::uint32_t chunk = 0;  // counts on from tensor to tensor
  std::uint32_t count = 0;  // of the values that follow
  std::int32_t values[kValues];

  std::size_t bytes() const { return offsetof(PoolPacket, values) + count * sizeof(values[0]); }
  // Whether this many received bytes are a packet.
  bool fits(std::size_t received) const {
    return received >= offsetof(PoolPacket, values) && count <= kValues && received == bytes();
  }
};

// A slot is used by every chunk that has this remainder. Its two versions take turns.
constexpr std::uint32_t slot_of(std::uint32_t chunk, std::uint32_t slots) { return chunk % slots; }
constexpr std::uint32_t version_of(std::uint32_t chunk, std::uint32_t slots) {
  return chunk / slots % 2;
}

}  // namespace slot_pool
