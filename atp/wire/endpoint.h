#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

// A UDP endpoint as the protocol names it: an IPv6 address (IPv4 as ::ffff:a.b.c.d) and a port.

namespace atp {

struct Endpoint {
  static constexpr std::size_t kWireBytes = 18;

  std::array<std::uint8_t, 16> address{};
  std::uint16_t port = 0;

  static constexpr Endpoint ipv4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d,
                                 std::uint16_t port) {
    return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}, port};
  }
  constexpr bool is_ipv4() const {
    for (std::size_t i = 0; i < 10; ++i) {
      if (address[i] != 0) return false;
    }
    return address[10] == 0xff && address[11] == 0xff;
  }
  // True for a default-constructed endpoint, which stands for none.
  constexpr bool unset() const { return *this == Endpoint{}; }

  // Compares two words instead of calling memcmp(): every packet's source is looked up.
  constexpr std::strong_ordering operator<=>(const Endpoint& other) const {
    const Words mine = words();
    const Words theirs = other.words();
    if (mine[0] != theirs[0]) return in_order(mine[0]) <=> in_order(theirs[0]);
    if (mine[1] != theirs[1]) return in_order(mine[1]) <=> in_order(theirs[1]);
    return port <=> other.port;
  }
  constexpr bool operator==(const Endpoint& other) const {
    const Words mine = words();
    const Words theirs = other.words();
    return ((mine[0] ^ theirs[0]) | (mine[1] ^ theirs[1])) == 0 && port == other.port;
  }

 private:
  using Words = std::array<std::uint64_t, 2>;
  constexpr Words words() const { return std::bit_cast<Words>(address); }
  // Turns a loaded word into a number that compares as its bytes do.
  static constexpr std::uint64_t in_order(std::uint64_t word) {
    return std::endian::native == std::endian::little ? __builtin_bswap64(word) : word;
  }
};

// 127.0.0.1:5500 or [::1]:5500.
std::string to_string(const Endpoint& endpoint);

void write_endpoint(std::uint8_t* at, const Endpoint& endpoint);
Endpoint read_endpoint(const std::uint8_t* at);

}  // namespace atp
