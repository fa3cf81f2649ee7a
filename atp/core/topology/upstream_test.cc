#include "atp/core/topology/upstream.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

Prefix ipv4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d, int bits) {
  return {Endpoint::ipv4(a, b, c, d, 0).address, static_cast<std::uint8_t>(96 + bits)};
}

TEST(Prefix, CoversAddressesThatShareItsBits) {
  struct Case {
    const char* name;
    Prefix prefix;
    Endpoint endpoint;
    bool inside;
  };
  const Case cases[] = {
      {"its own address", ipv4(10, 1, 2, 3, 32), Endpoint::ipv4(10, 1, 2, 3, 5), true},
      {"the neighbour of one address", ipv4(10, 1, 2, 3, 32), Endpoint::ipv4(10, 1, 2, 2, 5),
       false},
      {"inside whole bytes", ipv4(10, 0, 0, 0, 8), Endpoint::ipv4(10, 255, 255, 255, 5), true},
      {"outside whole bytes", ipv4(10, 0, 0, 0, 8), Endpoint::ipv4(11, 0, 0, 0, 5), false},
      {"the last address covered in a partly covered byte", ipv4(10, 0, 16, 0, 20),
       Endpoint::ipv4(10, 0, 31, 255, 5), true},
      {"the first address not covered in a partly covered byte", ipv4(10, 0, 16, 0, 20),
       Endpoint::ipv4(10, 0, 32, 0, 5), false},
      {"an address before a partly covered byte", ipv4(10, 0, 16, 0, 20),
       Endpoint::ipv4(10, 0, 15, 255, 5), false},
      {"one bit", Prefix{{0x80}, 1}, Endpoint{{0xff}, 5}, true},
      {"the other half", Prefix{{0x80}, 1}, Endpoint{{0x7f}, 5}, false},
      {"no bits cover everything", Prefix{}, Endpoint::ipv4(1, 2, 3, 4, 5), true},
      {"all of IPv4 covers no IPv6", ipv4(0, 0, 0, 0, 0), Endpoint{{0x20, 0x01}, 5}, false},
      {"all of IPv4", ipv4(0, 0, 0, 0, 0), Endpoint::ipv4(255, 255, 255, 255, 5), true},
  };
  for (const Case& c : cases) EXPECT_EQ(c.prefix.contains(c.endpoint), c.inside) << c.name;
}

TEST(UpstreamPolicy, AllowsNothingByDefault) {
  EXPECT_FALSE(UpstreamPolicy().allows(Endpoint::ipv4(127, 0, 0, 1, 5500)));
}

TEST(UpstreamPolicy, AllowsWhatAnyOfItsPrefixesCovers) {
  const UpstreamPolicy policy({ipv4(10, 0, 0, 0, 8), ipv4(127, 0, 0, 1, 32)});
  EXPECT_TRUE(policy.allows(Endpoint::ipv4(10, 9, 9, 9, 1)));
  EXPECT_TRUE(policy.allows(Endpoint::ipv4(127, 0, 0, 1, 65535)));
  EXPECT_FALSE(policy.allows(Endpoint::ipv4(127, 0, 0, 2, 1)));
}

TEST(UpstreamPolicy, NeverAllowsPort0) {
  const UpstreamPolicy policy({Prefix{}});
  EXPECT_FALSE(policy.allows(Endpoint::ipv4(10, 0, 0, 1, 0)));
  EXPECT_TRUE(policy.allows(Endpoint::ipv4(10, 0, 0, 1, 1)));
}

}  // namespace
}  // namespace atp
