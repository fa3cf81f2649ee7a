#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "atp/wire/packet_view.h"

// The next index and the part of a PARAMETER (docs/inside/protocol §3, *Header*, rules 4 and 8), as
// the judges read them. They use none of the product's functions for that.

namespace atp::sim {

constexpr std::uint32_t upper_24_bits(std::uint32_t index) { return index & ~std::uint32_t{0xff}; }

inline std::uint32_t next_index_of(const PacketView& packet) {
  return upper_24_bits(atp_load32(&packet.bytes[ATP_AT_NEXT_INDEX]));
}

inline constexpr std::size_t kAtPart = 35;

// How many aggregators each part means; 0: nobody has said how many.
inline constexpr auto kAggregatorsOfPart = [] {
  std::array<std::uint32_t, 256> numbers{};
  for (std::uint32_t p = 0; p < numbers.size(); ++p) {
    numbers[p] = p < 16 ? p : (16 + p % 16) << (p / 16 - 1);
  }
  return numbers;
}();
static_assert(kAggregatorsOfPart.back() == 507'904);

// The part that says so many, rounded down.
constexpr std::uint8_t part_of_number(std::uint64_t aggregators) {
  const auto above =
      std::upper_bound(kAggregatorsOfPart.begin(), kAggregatorsOfPart.end(), aggregators);
  return static_cast<std::uint8_t>(above - kAggregatorsOfPart.begin() - 1);
}

}  // namespace atp::sim
