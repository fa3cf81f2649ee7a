#include "atp/config/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "atp/config/cluster_file.h"
#include "atp/config/job_placement.h"
#include "atp/config/site_routes.h"

namespace atp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kWhole = R"(name: three racks
links:
  host: {bandwidth: 10 Gbit/s per direction, latency: 5 us}
  rack: {bandwidth: 40 Gbit/s per direction}
racks:
  - name: a
    uplink: core
    switch: {host: a0, port: 6000, aggregators: 1024}
    hosts:
      - {name: a0, address: 10.0.1.1}
      - {name: a1, address: 10.0.1.2, ranks: 2, bandwidth: 1 GB/s per direction}
  - name: b
    uplink: {to: core, bandwidth: 20 Gbit/s per direction, latency: 2 us}
    hosts:
      - {name: b1, address: "fd00:0:0::1"}
  - name: s
    uplink: core
    switch: s1
    hosts:
      - {name: s1, address: 10.0.3.1}
      - {name: s2, address: 10.0.3.2, ranks: 1}
servers: [s1, {host: s2, port: 7000, window: 64}]
)";

Site site_of(const std::string& text) {
  Result<Site> site = parse_site(text, "f");
  EXPECT_TRUE(site) << site.error().message;
  return site ? std::move(site).value() : Site();
}

TEST(Site, EveryKeyArrives) {
  const Site site = site_of(kWhole);
  ASSERT_EQ(site.racks.size(), 3u);
  ASSERT_EQ(site.hosts.size(), 5u);
  ASSERT_EQ(site.servers.size(), 2u);
  EXPECT_EQ(site.name, "three racks");
  ASSERT_TRUE(site.racks[0].switch_node);
  EXPECT_EQ(site.racks[0].switch_node->port, 6000);
  EXPECT_EQ(site.racks[0].switch_node->aggregators, 1024u);
  EXPECT_DOUBLE_EQ(site.racks[0].uplink.bandwidth, 5e9);
  EXPECT_FALSE(site.racks[1].switch_node);
  EXPECT_DOUBLE_EQ(site.racks[1].uplink.bandwidth, 2.5e9);
  EXPECT_DOUBLE_EQ(site.racks[1].uplink.latency_s, 2e-6);
  EXPECT_EQ(site.racks[2].switch_node->port, 5501);
  EXPECT_DOUBLE_EQ(site.hosts[0].link.bandwidth, 1.25e9);
  EXPECT_DOUBLE_EQ(site.hosts[1].link.bandwidth, 1e9);
  EXPECT_DOUBLE_EQ(site.hosts[1].link.latency_s, 5e-6);
  EXPECT_EQ(site.hosts[2].address, "fd00::1");
  EXPECT_EQ(site.hosts[2].rack, 1u);
  EXPECT_EQ(site.servers[0].port, 5500);
  EXPECT_EQ(site.servers[1].port, 7000);
  EXPECT_EQ(site.servers[1].window, 64u);
}

TEST(Site, AHostThatServesHasNoRanksUnlessTheFileSaysSo) {
  std::vector<std::uint32_t> ranks;
  for (const SiteHost& host : site_of(kWhole).hosts) ranks.push_back(host.ranks);
  EXPECT_THAT(ranks, ElementsAre(0, 2, 1, 0, 1));
}

TEST(Site, ARackAloneNeedsNoUplink) {
  const Site site = site_of(
      "racks: [{name: a, hosts: [{name: h, address: 10.0.0.1, ranks: 2}]}]\n"
      "servers: [h]");
  ASSERT_EQ(site.racks.size(), 1u);
  EXPECT_EQ(route_text(site, 0), "10.0.0.1:5500");
}

// `wrong` in place of `right` in the file above: the message begins with place, and has the rest.
struct Mistake {
  const char* name;
  std::string right;
  std::string wrong;
  const char* place;
  const char* rest;
};

TEST(Site, EveryMistakeIsNamedByFileLineAndKey) {
  const Mistake mistakes[] = {
      {"unknown host as server", "servers: [s1,", "servers: [s3,",
       "f:22: servers[0]: is no host: f has no host \"s3\"", "did you mean"},
      {"unknown host as switch", "switch: s1", "switch: z",
       "f:18: racks[2].switch: is no host: f has no host \"z\"", "write a0, a1, b1, s1 or s2"},
      {"switch in another rack", "switch: s1", "switch: b1",
       "f:18: racks[2].switch:", "runs on a host of the rack, and b1 is in rack b"},
      {"address twice", "address: 10.0.3.2", "address: 10.0.1.2",
       "f:21: racks[2].hosts[1].address:",
       "\"10.0.1.2\" is that of racks[0].hosts[1].address (line 11) too"},
      {"one address in two ways", "address: 10.0.3.2", "address: \"fd00::0:1\"",
       "f:21: racks[2].hosts[1].address:", "is that of racks[1].hosts[0].address (line 15) too"},
      {"host twice", "name: s2", "name: a1",
       "f:21: racks[2].hosts[1].name:", "give each host a name of its own"},
      {"rack twice", "name: b\n", "name: a\n",
       "f:12: racks[1].name:", "give each rack a name of its own"},
      {"a rack called core", "name: b\n", "name: core\n",
       "f:12: racks[1].name:", "above all racks"},
      {"rack without uplink", "    uplink: core\n    switch: s1", "    switch: s1",
       "f:16: racks[2].uplink:", "is missing, expected where the rack's uplink leads: core, or"},
      {"unknown uplink", "name: a\n    uplink: core", "name: a\n    uplink: coer",
       "f:7: racks[0].uplink:", "did you mean core?"},
      {"bandwidth without unit", "bandwidth: 1 GB/s per direction", "bandwidth: 1",
       "f:11: racks[0].hosts[1].bandwidth:", "without a unit"},
      {"bandwidth without direction", "10 Gbit/s per direction", "10 Gbit/s",
       "f:3: links.host.bandwidth:", "without a direction"},
      {"latency without unit", "latency: 2 us", "latency: 2",
       "f:13: racks[1].uplink.latency:", "without a unit"},
      {"address that is none", "10.0.3.2", "10.0.3",
       "f:21: racks[2].hosts[1].address:", "expected an IPv4 or IPv6 address"},
      {"address with a port", "10.0.3.2", "10.0.3.2:80",
       "f:21: racks[2].hosts[1].address:", "without a port"},
      {"name with a comma", "name: b1", "name: \"b,1\"",
       "f:15: racks[1].hosts[0].name:", "a name of letters, digits"},
      {"host without address", ", address: 10.0.3.2, ranks: 1", ", ranks: 1",
       "f:21: racks[2].hosts[1].address:", "is missing"},
      {"port out of range", "port: 6000", "port: 66000",
       "f:8: racks[0].switch.port:", "a whole number from 1 to 65535"},
      {"window that is no power of two", "window: 64", "window: 65",
       "f:22: servers[1].window:", "a power of two"},
      {"ranks that are none", "ranks: 2", "ranks: two",
       "f:11: racks[0].hosts[1].ranks:", "a whole number from 0 to 1024"},
      {"unknown key of a host", "ranks: 2", "rank: 2",
       "f:11: racks[0].hosts[1].\"rank\":", "did you mean ranks?"},
      {"two servers on a port", "{host: s2, port: 7000, window: 64}", "s1",
       "f:22: servers[1]:", "listens on 10.0.3.1:5500 as servers[0] (line 22) does"},
      {"switch and server on a port", "servers: [s1,", "servers: [{host: s1, port: 5501},",
       "f:22: servers[0]:", "listens on 10.0.3.1:5501 as racks[2].switch (line 18) does"},
      {"no servers", "servers: [s1, {host: s2, port: 7000, window: 64}]", "servers: []",
       "f:22: servers:", "expected at least one host"},
      {"unknown link", "  rack: {bandwidth", "  rak: {bandwidth",
       "f:4: links.\"rak\":", "did you mean rack?"},
  };
  for (const Mistake& mistake : mistakes) {
    std::string text = kWhole;
    const std::size_t at = text.find(mistake.right);
    ASSERT_NE(at, std::string::npos) << mistake.name;
    text.replace(at, mistake.right.size(), mistake.wrong);
    const Result<Site> site = parse_site(text, "f");
    ASSERT_FALSE(site) << mistake.name;
    EXPECT_THAT(site.error().message, StartsWith(mistake.place)) << mistake.name;
    EXPECT_THAT(site.error().message, HasSubstr(mistake.rest)) << mistake.name;
  }
}

// A rack with one host of the same name, on the address 10.0.0.N.
std::string rack_lines(const std::string& name, const std::string& uplink, int number,
                       bool has_switch = true) {
  return "  - name: " + name + "\n    uplink: " + uplink + "\n" +
         (has_switch ? "    switch: " + name + "\n" : "") + "    hosts: [{name: " + name +
         ", address: 10.0.0." + std::to_string(number) + ", ranks: 1}]\n";
}

TEST(Site, UplinksInACircleAreNamed) {
  const Result<Site> site =
      parse_site("racks:\n" + rack_lines("x", "core", 1) + rack_lines("a", "b", 2) +
                     rack_lines("b", "c", 3) + rack_lines("c", "b", 4) + "servers: [x]",
                 "f");
  ASSERT_FALSE(site);
  EXPECT_EQ(site.error().message,
            "f:11: racks[2].uplink: its uplink leads back to itself (b > c > b); let the uplink of "
            "one of them lead to core");
}

TEST(Site, ARackAboveItselfIsACircle) {
  const Result<Site> site = parse_site("racks:\n" + rack_lines("a", "a", 1) + "servers: [a]", "f");
  ASSERT_FALSE(site);
  EXPECT_THAT(site.error().message, HasSubstr("f:3: racks[0].uplink: its uplink leads back"));
}

TEST(Site, HasAtMostSoManyRacks) {
  std::string text = "racks:\n";
  for (int rack = 0; rack < 1025; ++rack) text += "  - {name: r" + std::to_string(rack) + "}\n";
  const Result<Site> site = parse_site(text + "servers: [x]", "f");
  ASSERT_FALSE(site);
  EXPECT_EQ(site.error().message, "f:1: racks: found more than 1024 racks, expected at most 1024");
}

// Rack p stands above a and b, q above c; the core joins p, q and s, the servers' rack.
std::string tree_text(bool p_has_switch) {
  return "racks:\n" + rack_lines("a", "p", 1) + rack_lines("b", "p", 2) + rack_lines("c", "q", 3) +
         rack_lines("p", "core", 4, p_has_switch) + rack_lines("q", "core", 5) +
         rack_lines("s", "core", 6) + "servers: [s, b]";
}

TEST(Routes, LeadAlongTheUplinksToEachServer) {
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

TEST(Routes, ARackWithoutASwitchIsPassed) {
  const Site site = site_of(tree_text(false));
  EXPECT_EQ(route_text(site, site.find_host("a").value()),
            "10.0.0.1:5501,10.0.0.6:5501,10.0.0.6:5500;10.0.0.1:5501,10.0.0.2:5501,10.0.0.2:5500");
}

TEST(Routes, OfASwitchTheNextHopsAreTheSameForAllThatPassIt) {
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

TEST(Routes, ASwitchMaySendToTheNextHopsAlone) {
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

TEST(Routes, OfMoreSwitchesThanARouteHoldsAreRefused) {
  std::string text = "racks:\n" + rack_lines("r0", "core", 1);
  for (int i = 1; i < 8; ++i) {
    text += rack_lines("r" + std::to_string(i), "r" + std::to_string(i - 1), i + 1);
  }
  const Result<Site> site = parse_site(text + "servers: [r0]", "f");
  ASSERT_FALSE(site);
  EXPECT_THAT(site.error().message, HasSubstr("racks[7].uplink: has 8 switches on its way to the "
                                              "server on r0, expected at most 7"));
}

TEST(JobPlacement, TakesTheFilesHostsOrTheNamedOnesInTheirOrder) {
  const Site site = site_of(kWhole);
  const struct {
    std::vector<std::string> hosts;
    std::uint32_t ranks_per_host;
    std::string expected;  // host:first+ranks
  } rows[] = {
      {{}, 0, "a1:0+2 b1:2+1 s2:3+1 of 4"},
      {{}, 4, "a1:0+4 b1:4+4 s2:8+4 of 12"},
      {{"b1", "a1"}, 0, "b1:0+1 a1:1+2 of 3"},
      {{"s1"}, 3, "s1:0+3 of 3"},
  };
  for (const auto& row : rows) {
    const Result<JobPlacement> placement = place_job(site, row.hosts, row.ranks_per_host);
    ASSERT_TRUE(placement) << row.expected << ": " << placement.error().message;
    std::string text;
    for (const PlacedRanks& placed : placement.value().hosts) {
      text += site.hosts[placed.host].name + ":" + std::to_string(placed.first_rank) + "+" +
              std::to_string(placed.ranks) + " ";
    }
    EXPECT_EQ(text + "of " + std::to_string(placement.value().world_size), row.expected);
  }
}

TEST(JobPlacement, WhatCannotBePlacedIsRefused) {
  const Site site = site_of(kWhole);
  const struct {
    std::vector<std::string> hosts;
    std::uint32_t ranks_per_host;
    const char* error;
  } rows[] = {
      {{"a9"}, 0, "f has no host \"a9\"; did you mean a0?"},
      {{"a1", "a1"}, 0, "host a1 stands twice"},
      {{"s1"}, 0, "f:20: racks[2].hosts[0]: host s1 has no ranks; give it `ranks`"},
      {{}, 1000, "the job has 3000 ranks, expected at most 1024"},
  };
  for (const auto& row : rows) {
    const Result<JobPlacement> placement = place_job(site, row.hosts, row.ranks_per_host);
    ASSERT_FALSE(placement) << row.error;
    EXPECT_THAT(placement.error().message, HasSubstr(row.error));
  }
}

// Racks a and b of two hosts each, and a rack with a server and perhaps a switch.
std::string even_text(bool with_switches, bool above) {
  std::string text =
      "links:\n  host: {bandwidth: 10 Gbit/s per direction, latency: 5 us}\n"
      "  rack: {bandwidth: 40 Gbit/s per direction, latency: 1 us}\nracks:\n";
  for (const std::string name : {"a", "b"}) {
    text += "  - name: " + name + "\n    uplink: core\n";
    if (with_switches) text += "    switch: {host: " + name + "1, aggregators: 500}\n";
    const std::string address = ", address: 10.0." + std::to_string(name[0] - 'a') + ".";
    text += "    hosts:\n      - {name: " + name + "1" + address + "1, ranks: 1}\n";
    text += "      - {name: " + name + "2" + address + "2, ranks: 1}\n";
  }
  text += "  - name: s\n    uplink: core\n";
  if (above) text += "    switch: s0\n";
  return text +
         "    hosts: [{name: s0, address: 10.0.9.9, ranks: 0}, {name: s1, address: 10.0.9.8}]\n"
         "servers: [s1]\n";
}

planner::Interconnect interconnect_of_text(const std::string& text) {
  const Result<Cluster> cluster = parse_cluster(text, "f");
  EXPECT_TRUE(cluster) << cluster.error().message;
  return cluster ? cluster.value().interconnect : planner::Interconnect();
}

TEST(SiteInterconnect, HasTheRacksAndTheirHostsAsLevels) {
  const planner::Interconnect interconnect = interconnect_of_text(even_text(true, true));
  ASSERT_EQ(interconnect.levels.size(), 2u);
  const planner::Level& rack = interconnect.levels[0];
  const planner::Level& host = interconnect.levels[1];
  EXPECT_EQ(rack.count, 2u);
  EXPECT_DOUBLE_EQ(rack.bandwidth.value, 5e9);
  EXPECT_DOUBLE_EQ(rack.latency_s, 12e-6);
  EXPECT_EQ(host.count, 2u);
  EXPECT_DOUBLE_EQ(host.bandwidth.value, 1.25e9);
  EXPECT_DOUBLE_EQ(host.latency_s, 10e-6);
  ASSERT_TRUE(rack.aggregation && host.aggregation);
  EXPECT_EQ(host.aggregation->slots, 500u);
  EXPECT_EQ(host.aggregation->server_hosts, 1u);
  EXPECT_DOUBLE_EQ(host.aggregation->server_bandwidth.value, 1.25e9);
  EXPECT_FALSE(rack.aggregation->fallback_share);
}

TEST(SiteInterconnect, WithoutASwitchAboveTheRacksTheServersAdd) {
  const planner::Interconnect interconnect = interconnect_of_text(even_text(true, false));
  ASSERT_TRUE(interconnect.levels.at(0).aggregation);
  EXPECT_EQ(interconnect.levels[0].aggregation->fallback_share, 1);
  EXPECT_FALSE(interconnect.levels[1].aggregation->fallback_share);
}

TEST(SiteInterconnect, WithoutSwitchesInTheRacksNothingAggregates) {
  for (const planner::Level& level : interconnect_of_text(even_text(false, true)).levels) {
    EXPECT_FALSE(level.aggregation) << level.name;
  }
}

TEST(SiteInterconnect, LevelsOfTheFileGoFirst) {
  const std::string text = even_text(true, true) +
                           "levels:\n  - {name: gpu, count: 7, kind: full, "
                           "bandwidth: 1 GB/s per direction}\n";
  EXPECT_EQ(interconnect_of_text(text).levels.at(0).count, 7u);
}

TEST(SiteInterconnect, WhatThePlannerCannotTakeIsSaid) {
  const struct {
    const char* right;
    const char* wrong;
    const char* error;
  } rows[] = {
      {"b2, address: 10.0.1.2, ranks: 1", "b2, address: 10.0.1.2, ranks: 0",
       "f:12: racks[1].uplink: has 1 hosts with ranks, and the planner takes racks of equal size"},
      {"b2, address: 10.0.1.2, ranks: 1", "b2, address: 10.0.1.2, ranks: 3",
       "f:16: racks[1].hosts[1]: has 3 ranks, and the planner takes hosts of equal size, here 1"},
      {"host: {bandwidth: 10 Gbit/s per direction, latency", "host: {latency",
       "f:9: racks[0].hosts[0]: its bandwidth is missing"},
      {"rack: {bandwidth: 40 Gbit/s per direction, latency", "rack: {latency",
       "f:6: racks[0].uplink: its bandwidth is missing"},
      {"name: b\n    uplink: core", "name: b\n    uplink: s",
       "f:12: racks[1].uplink: leads to another rack"},
  };
  for (const auto& row : rows) {
    std::string text = even_text(true, true);
    const std::size_t at = text.find(row.right);
    ASSERT_NE(at, std::string::npos) << row.right;
    text.replace(at, std::string(row.right).size(), row.wrong);
    const Result<Cluster> cluster = parse_cluster(text, "f");
    ASSERT_FALSE(cluster) << row.error;
    EXPECT_THAT(cluster.error().message, StartsWith(row.error));
  }
}

}  // namespace
}  // namespace atp
