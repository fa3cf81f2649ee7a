#include "atp/config/site/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "atp/config/site/testing_site.h"

namespace atp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Rack p is above a and b, q above c; the core connects p, q and s, the servers' rack.
std::string tree_text(bool p_has_switch) {
  return "racks:\n" + rack_lines("a", "p", 1) + rack_lines("b", "p", 2) + rack_lines("c", "q", 3) +
         rack_lines("p", "core", 4, p_has_switch) + rack_lines("q", "core", 5) +
         rack_lines("s", "core", 6) + "servers: [s, b]";
}

TEST(Routes, FollowTheUplinksToEachServer) {
  const struct {
    const char* host;
    const char* way;  // the last number of each address
  } rows[] = {
      {"a", "1,4,6,s6;1,4,2,s2"},  // up to the core and down; up to p and down
      {"b", "2,4,6,s6;2,s2"},      // the server's own rack: its switch alone
      {"c", "3,5,6,s6;3,5,4,2,s2"}, {"p", "4,6,s6;4,2,s2"}, {"s", "6,s6;6,4,2,s2"},
  };
  const Site site = site_of(tree_text(true));
  for (const auto& row : rows) {
    std::string expected;
    for (const char* at = row.way; *at != '\0'; ++at) {
      const bool is_server = *at == 's';
      if (is_server) ++at;
      if (*at == ',' || *at == ';') {
        expected += *at;
        continue;
      }
      expected += std::string("10.0.0.") + *at + (is_server ? ":5500" : ":5501");
    }
    EXPECT_EQ(route_text(site, site.find_host(row.host).value()), expected) << row.host;
  }
}

TEST(Routes, SkipARackWithoutASwitch) {
  const Site site = site_of(tree_text(false));
  EXPECT_EQ(route_text(site, site.find_host("a").value()),
            "10.0.0.1:5501,10.0.0.6:5501,10.0.0.6:5500;10.0.0.1:5501,10.0.0.2:5501,10.0.0.2:5500");
}

TEST(Uplinks, LeadUpToWhereTheRacksMeetAndDownFromThere) {
  const struct {
    std::uint32_t from, to;
    std::vector<std::uint32_t> racks;
  } rows[] = {
      {0, 0, {}},            // a
      {0, 1, {0, 1}},        // b: inside p's network, whose own uplink is not used
      {0, 3, {0}},           // p
      {0, 2, {0, 3, 4, 2}},  // c: through the core
      {5, 0, {5, 3, 0}},     // s
  };
  const Site site = site_of(tree_text(true));
  for (const auto& row : rows) EXPECT_EQ(uplinks_between(site, row.from, row.to), row.racks);
}

TEST(Routes, ThroughOneSwitchHaveTheSameNextHops) {
  const Site site = site_of(tree_text(true));
  for (std::uint32_t rack = 0; rack < site.racks.size(); ++rack) {
    for (std::uint32_t server = 0; server < site.servers.size(); ++server) {
      const std::vector<std::uint32_t> way = switches_between(site, rack, server);
      for (std::size_t hop = 0; hop < way.size(); ++hop) {
        const std::vector<std::uint32_t> rest(way.begin() + static_cast<std::ptrdiff_t>(hop),
                                              way.end());
        EXPECT_EQ(switches_between(site, way[hop], server), rest);
      }
    }
  }
}

TEST(Routes, ASwitchMaySendOnlyToItsNextHops) {
  const Site site = site_of(tree_text(true));
  const auto names = [&site](std::uint32_t rack) {
    std::vector<std::string> above;
    for (const std::uint32_t host : hosts_above(site, rack)) above.push_back(site.hosts[host].name);
    return above;
  };
  EXPECT_THAT(names(0), ElementsAre("p"));
  EXPECT_THAT(names(1), ElementsAre("p", "b"));
  EXPECT_THAT(names(3), ElementsAre("s", "b"));
  EXPECT_THAT(names(5), ElementsAre("s", "p"));
}

TEST(Routes, WithTooManySwitchesAreRefused) {
  std::string text = "racks:\n" + rack_lines("r0", "core", 1);
  for (int i = 1; i < 8; ++i) {
    text += rack_lines("r" + std::to_string(i), "r" + std::to_string(i - 1), i + 1);
  }
  const Result<Site> site = parse_site(text + "servers: [r0]", "f");
  ASSERT_FALSE(site);
  EXPECT_THAT(site.error().message, HasSubstr("racks[7].uplink: has 8 switches on the route to the "
                                              "server on r0, expected at most 7"));
}

}  // namespace
}  // namespace atp
