#pragma once

#include <cstdint>
#include <optional>

// What who connects to a rank says first, and what it is answered. In the byte order of the
// machine: one that has another order says another magic number.

namespace atp {

// Of a ring's two connections between neighbours (collective/ring/links.h), or of any two ranks'.
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
static_assert(sizeof(Hello) == 32, "no padding, as it travels as it is");

// What the connection is for on which this was said; nothing if it is, but for that, not what was
// expected.
inline std::optional<Purpose> purpose_of(const Hello& said, Hello expected) {
  expected.purpose = said.purpose;
  const bool is_known = said.purpose == Purpose::kData || said.purpose == Purpose::kControl;
  return is_known && said == expected ? std::optional(said.purpose) : std::nullopt;
}

}  // namespace atp
