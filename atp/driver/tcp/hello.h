#pragma once

#include <cstdint>
#include <optional>

// The first message on a connection to a rank, and the answer to it. It is in host byte order: a
// machine with another byte order sends another magic number.

namespace atp {

// kData and kControl: the two connections between neighbours of a ring (collective/ring/links.h).
// kPeer: the connection between any two ranks.
enum class Purpose : std::uint32_t { kData = 1, kControl = 2, kPeer = 3 };

struct Hello {
  static constexpr std::uint32_t kMagic = 0x52505441;

  std::uint32_t magic = kMagic;
  Purpose purpose = Purpose::kData;
  std::uint64_t token = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t world_size = 0;
  std::uint32_t unused = 0;

  bool operator==(const Hello&) const = default;
};
static_assert(sizeof(Hello) == 32, "sent as it lies in memory, so without padding");

// Which of a ring's two connections the peer named. Nothing if it named neither, or the rest of its
// Hello is not the expected one.
inline std::optional<Purpose> purpose_of(const Hello& said, Hello expected) {
  expected.purpose = said.purpose;
  const bool is_known = said.purpose == Purpose::kData || said.purpose == Purpose::kControl;
  return is_known && said == expected ? std::optional(said.purpose) : std::nullopt;
}

}  // namespace atp
