#pragma once

#include <cstdint>
#include <span>

#include "atp/base/random.h"

namespace atp::sim {

// The ones' complement sum of UDP's checksum over the payload (RFC 1071).
constexpr std::uint16_t ones_complement_sum(std::span<const std::uint8_t> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += i % 2 == 0 ? std::uint64_t{bytes[i]} << 8 : bytes[i];
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

// Flips one to fifteen bits of one 16-bit word: what the checksum is certain to see. Damage that it
// cannot see is the link layer's to find, and no protocol above UDP survives it.
inline void damage(std::span<std::uint8_t> bytes, Random& random) {
  if (bytes.size() < 2) return;
  const std::size_t at = 2 * random.below(bytes.size() / 2);
  const std::uint64_t flips = 1 + random.below(0xfffe);
  bytes[at] ^= static_cast<std::uint8_t>(flips >> 8);
  bytes[at + 1] ^= static_cast<std::uint8_t>(flips);
}

}  // namespace atp::sim
