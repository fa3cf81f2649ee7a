#include "atp/wire/endpoint.h"

#include <gtest/gtest.h>

#include <vector>

namespace atp {
namespace {

TEST(Endpoint, HasTheBytesOfAnIpv6AddressAndAPort) {
  std::uint8_t bytes[Endpoint::kWireBytes];
  const Endpoint endpoint = Endpoint::ipv4(192, 0, 2, 1, 5500);
  write_endpoint(bytes, endpoint);
  const std::vector<std::uint8_t> expected = {0, 0,    0,    0,   0, 0, 0, 0,    0,
                                              0, 0xff, 0xff, 192, 0, 2, 1, 0x15, 0x7c};
  EXPECT_EQ(std::vector<std::uint8_t>(bytes, bytes + sizeof bytes), expected);
  EXPECT_EQ(read_endpoint(bytes), endpoint);
}

TEST(Endpoint, IsPrintedInTheUsualNotation) {
  struct Case {
    Endpoint endpoint;
    const char* text;
  };
  const Case cases[] = {
      {Endpoint::ipv4(127, 0, 0, 1, 5500), "127.0.0.1:5500"},
      {Endpoint::ipv4(255, 255, 255, 255, 65535), "255.255.255.255:65535"},
      {{}, "[::]:0"},
      {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 80}, "[::1]:80"},
      {{{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 1}, "[2001:db8::1]:1"},
      {{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 1}, "[fe80::]:1"},
      {{{0x20, 0x01, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1}, 1}, "[2001:0:0:1::1]:1"},
      {{{0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}, 1}, "[1:0:1:1:1:1:1:1]:1"},
      {{{0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0xab, 0xcd}, 1}, "[1:2:3:4:5:6:7:abcd]:1"},
      {{{0, 1, 0, 2, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 8}, 1}, "[1:2::5:0:0:8]:1"},
  };
  for (const Case& c : cases) EXPECT_EQ(to_string(c.endpoint), c.text);
}

TEST(Endpoint, TellsIpv4AndUnsetApart) {
  EXPECT_TRUE(Endpoint::ipv4(0, 0, 0, 0, 1).is_ipv4());
  EXPECT_FALSE(Endpoint{}.is_ipv4());
  EXPECT_TRUE(Endpoint{}.unset());
  EXPECT_FALSE(Endpoint::ipv4(0, 0, 0, 0, 0).unset());
}

TEST(Endpoint, IsOrderedByAddressThenPort) {
  EXPECT_LT(Endpoint::ipv4(10, 0, 0, 1, 9), Endpoint::ipv4(10, 0, 0, 2, 1));
  EXPECT_LT(Endpoint::ipv4(10, 0, 0, 1, 1), Endpoint::ipv4(10, 0, 0, 1, 2));
}

}  // namespace
}  // namespace atp
