#pragma once

#include <cstdint>

// The first message on a connection between two ranks, and the answer to it. It is in host byte
// order: a machine with another byte order sends another magic number.

namespace atp {

struct Hello {
  static constexpr std::uint32_t kMagic = 0x48505441;

  std::uint32_t magic = kMagic;
  std::uint32_t world_size = 0;
  std::uint64_t token = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;

  bool operator==(const Hello&) const = default;
};
static_assert(sizeof(Hello) == 24, "sent as it lies in memory, so without padding");

}  // namespace atp
