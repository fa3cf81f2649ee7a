#include "atp/driver/udp/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace atp {
namespace {

using ::testing::HasSubstr;

TEST(Address, TextAndBack) {
  for (const char* text :
       {"127.0.0.1:5500", "0.0.0.0:0", "10.1.2.255:65535", "[::1]:5500", "[fd00:0:0:1::2]:1"}) {
    const Result<Endpoint> endpoint = resolve_endpoint(text);
    ASSERT_TRUE(endpoint.ok()) << text << ": " << endpoint.error().message;
    if (std::string_view(text) != "[fd00:0:0:1::2]:1") {
      EXPECT_EQ(to_string(endpoint.value()), text);
    }
  }
}

TEST(Address, NamesAreResolvedToIpv4First) {
  const Result<Endpoint> endpoint = resolve_endpoint("localhost:7");
  ASSERT_TRUE(endpoint.ok());
  EXPECT_EQ(endpoint.value(), Endpoint::ipv4(127, 0, 0, 1, 7));
}

TEST(Address, AnInvalidAddressIsRefusedWithAnExample) {
  for (const char* text : {"", "5500", ":5500", "host", "127.0.0.1:", "127.0.0.1:65536",
                           "127.0.0.1:-1", "127.0.0.1:5x", "::1:5500", "[]:5", "[::1]5500"}) {
    const Result<Endpoint> endpoint = resolve_endpoint(text);
    ASSERT_FALSE(endpoint.ok()) << text;
    EXPECT_THAT(endpoint.error().message, HasSubstr("expected HOST:PORT")) << text;
  }
}

TEST(Address, TheErrorNamesAnUnknownHost) {
  const Result<Endpoint> endpoint = resolve_endpoint("no-such-host.invalid:1");
  ASSERT_FALSE(endpoint.ok());
  EXPECT_THAT(endpoint.error().message, HasSubstr("no-such-host.invalid"));
}

TEST(Address, ARouteIsAListOfEndpointsToSendTo) {
  const auto route = resolve_route("127.0.0.1:5501,[::1]:5500");
  ASSERT_TRUE(route.ok());
  ASSERT_EQ(route.value().size(), 2u);
  EXPECT_EQ(to_string(route.value()[0]), "127.0.0.1:5501");
  EXPECT_EQ(to_string(route.value()[1]), "[::1]:5500");

  for (const char* text : {"", "127.0.0.1:5501,", ",127.0.0.1:1", "127.0.0.1:0", "0.0.0.0:5500"}) {
    EXPECT_FALSE(resolve_route(text).ok()) << text;
  }
}

TEST(Address, TheErrorOfABadRouteStatesTheRule) {
  struct Case {
    const char* text;
    const char* complaint;
  };
  const Case cases[] = {
      {"127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4,127.0.0.1:5,127.0.0.1:6,127.0.0.1:7,"
       "127.0.0.1:8,127.0.0.1:9",
       "9 hops; a route has the server and at most 7 switches before it"},
      {"[fe80::1]:5501,[fd00::2]:5500", "'fe80::1' is a link-local address"},
      {"[fe80::1%lo]:5500", "'fe80::1%lo' is a link-local address"},
      {"10.0.0.1:5501,10.0.0.9:5500,10.0.0.1:5501",
       "10.0.0.1:5501 stands twice in one route: name each switch once"},
      {"0.0.0.0:5500", "cannot send to 0.0.0.0:5500: a route needs the address and port"},
  };
  for (const Case& c : cases) {
    const auto route = resolve_route(c.text);
    ASSERT_FALSE(route.ok()) << c.text;
    EXPECT_THAT(route.error().message, HasSubstr(c.complaint));
  }
}

std::vector<std::string> ways_of(const char* text) {
  const auto routes = resolve_routes(text);
  if (!routes) return {routes.error().message};
  std::vector<std::string> ways;
  for (const auto& route : routes.value()) {
    std::string& way = ways.emplace_back();
    for (const Endpoint& hop : route) way += (way.empty() ? "" : ",") + to_string(hop);
  }
  return ways;
}

TEST(Address, ARouteWithPortRangesExpandsToSeveralRoutes) {
  using ::testing::ElementsAre;
  EXPECT_THAT(ways_of("10.0.0.1:1,10.0.0.9:2"), ElementsAre("10.0.0.1:1,10.0.0.9:2"));
  EXPECT_THAT(ways_of("10.0.0.1:1;[::1]:2"), ElementsAre("10.0.0.1:1", "[::1]:2"));
  EXPECT_THAT(ways_of("10.0.0.1:5501-5503,[fd00::9]:700-702"),
              ElementsAre("10.0.0.1:5501,[fd00::9]:700", "10.0.0.1:5502,[fd00::9]:701",
                          "10.0.0.1:5503,[fd00::9]:702"));
  EXPECT_THAT(
      ways_of("10.0.0.1:5501,10.0.0.9:7-8;10.0.0.8:65535-65535"),
      ElementsAre("10.0.0.1:5501,10.0.0.9:7", "10.0.0.1:5501,10.0.0.9:8", "10.0.0.8:65535"));
}

TEST(Address, AnInvalidPortRangeIsRefusedWithAnExample) {
  using ::testing::ElementsAre;
  for (const char* text : {"10.0.0.1:5503-5501", "10.0.0.1:0-3", "10.0.0.1:65535-65536",
                           "10.0.0.1:1-", "10.0.0.1:-2", "10.0.0.1:1-2-3", "10.0.0.1:1-x"}) {
    EXPECT_THAT(ways_of(text), ElementsAre(HasSubstr("expected HOST:FIRST-LAST"))) << text;
  }
  EXPECT_THAT(ways_of("10.0.0.1:1-2,10.0.0.9:1-3"), ElementsAre(HasSubstr("of 2 and of 3 ports")));
  EXPECT_THAT(ways_of("10.0.0.1:1-300"), ElementsAre(HasSubstr("more than 256 routes")));
  EXPECT_THAT(ways_of("10.0.0.1:1-2,"), ElementsAre(HasSubstr("expected HOST:PORT")));
}

TEST(Address, ASocketThatReachesAllPeersIsIpv6IfOneOfThemIs) {
  const Endpoint four = Endpoint::ipv4(10, 0, 0, 1, 5500);
  const Endpoint six = resolve_endpoint("[fd00::1]:5500").value();
  EXPECT_TRUE(any_address_for(std::vector{four, four}).is_ipv4());
  EXPECT_FALSE(any_address_for(std::vector{four, six}).is_ipv4());
}

TEST(Address, KernelFormAndBackInBothFamilies) {
  const Endpoint four = Endpoint::ipv4(10, 0, 0, 1, 5500);
  const Endpoint six = resolve_endpoint("[fd00::1]:5500").value();
  SocketAddress address{};
  ASSERT_TRUE(to_socket_address(four, AF_INET, address));
  EXPECT_EQ(to_endpoint(address), four);
  ASSERT_TRUE(to_socket_address(four, AF_INET6, address));
  EXPECT_EQ(to_endpoint(address), four);
  ASSERT_TRUE(to_socket_address(six, AF_INET6, address));
  EXPECT_EQ(to_endpoint(address), six);
  EXPECT_FALSE(to_socket_address(six, AF_INET, address));
}

TEST(Address, LoopbackAndWildcardAreRecognized) {
  EXPECT_TRUE(is_loopback(Endpoint::ipv4(127, 9, 9, 9, 1)));
  EXPECT_TRUE(is_loopback(resolve_endpoint("[::1]:1").value()));
  EXPECT_FALSE(is_loopback(Endpoint::ipv4(10, 0, 0, 1, 1)));
  EXPECT_FALSE(is_loopback(Endpoint{}));
  EXPECT_TRUE(is_wildcard(Endpoint::ipv4(0, 0, 0, 0, 1)));
  EXPECT_TRUE(is_wildcard(resolve_endpoint("[::]:1").value()));
  EXPECT_FALSE(is_wildcard(Endpoint::ipv4(0, 0, 0, 1, 1)));
}

}  // namespace
}  // namespace atp
