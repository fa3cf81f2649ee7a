#include "atp/config/site/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "atp/config/site/routes.h"
#include "atp/config/site/testing_site.h"
#include "atp/config/text/testing_mistakes.h"

namespace atp {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Site, EveryKeyIsRead) {
  const Site site = site_of(kThreeRacks);
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
  EXPECT_EQ(site.servers[0].lease, 0u);
  EXPECT_EQ(site.servers[1].lease, 60u);
}

TEST(Site, AHostOfASwitchOrServerHasNoRanksByDefault) {
  std::vector<std::uint32_t> ranks;
  for (const SiteHost& host : site_of(kThreeRacks).hosts) ranks.push_back(host.ranks);
  EXPECT_THAT(ranks, ElementsAre(0, 2, 1, 0, 1));
}

TEST(Site, ThisMachineIsTheOnlyHostWithOneOfItsAddresses) {
  const Site site = site_of(kThreeRacks);
  const auto own_host = [&](std::set<std::string> addresses) {
    return site.find_own_host([&](const std::string& one) { return addresses.contains(one); });
  };
  const std::string first = site.hosts[0].address, last = site.hosts.back().address;
  EXPECT_EQ(own_host({"192.0.2.1", last}).value(), site.hosts.size() - 1);
  EXPECT_THAT(own_host({}).error().message, HasSubstr("the addresses of 0 hosts"));
  EXPECT_THAT(own_host({first, last}).error().message,
              AllOf(HasSubstr("the addresses of 2 hosts"), HasSubstr("--host NAME")));
}

TEST(Site, ASingleRackNeedsNoUplink) {
  const Site site = site_of(
      "racks: [{name: a, hosts: [{name: h, address: 10.0.0.1, ranks: 2}]}]\n"
      "servers: [h]");
  ASSERT_EQ(site.racks.size(), 1u);
  EXPECT_EQ(route_text(site, 0), "10.0.0.1:5500");
}

TEST(Site, EveryErrorNamesFileLineAndKey) {
  const Mistake mistakes[] = {
      {"unknown host as server", "servers: [s1,", "servers: [s3,",
       "f:22: servers[0]: unknown host: f has no host \"s3\"", "did you mean"},
      {"unknown host as switch", "switch: s1", "switch: z",
       "f:18: racks[2].switch: unknown host: f has no host \"z\"", "use a0, a1, b1, s1 or s2"},
      {"switch in another rack", "switch: s1", "switch: b1",
       "f:18: racks[2].switch:", "must run on a host of the rack, but b1 is in rack b"},
      {"address twice", "address: 10.0.3.2", "address: 10.0.1.2",
       "f:21: racks[2].hosts[1].address:",
       "\"10.0.1.2\" is already used by racks[0].hosts[1].address (line 11)"},
      {"one address in two ways", "address: 10.0.3.2", "address: \"fd00::0:1\"",
       "f:21: racks[2].hosts[1].address:",
       "is already used by racks[1].hosts[0].address (line 15)"},
      {"host twice", "name: s2", "name: a1",
       "f:21: racks[2].hosts[1].name:", "give each host a different name"},
      {"rack twice", "name: b\n", "name: a\n",
       "f:12: racks[1].name:", "give each rack a different name"},
      {"a rack called core", "name: b\n", "name: core\n",
       "f:12: racks[1].name:", "above all racks"},
      {"rack without uplink", "    uplink: core\n    switch: s1", "    switch: s1",
       "f:16: racks[2].uplink:",
       "is missing, expected the other end of the rack's uplink: core, or"},
      {"unknown uplink", "name: a\n    uplink: core", "name: a\n    uplink: coer",
       "f:7: racks[0].uplink:", "did you mean core?"},
      {"bandwidth without unit", "bandwidth: 1 GB/s per direction", "bandwidth: 1",
       "f:11: racks[0].hosts[1].bandwidth:", "without a unit"},
      {"bandwidth without direction", "10 Gbit/s per direction", "10 Gbit/s",
       "f:3: links.host.bandwidth:", "without a direction"},
      {"latency without unit", "latency: 2 us", "latency: 2",
       "f:13: racks[1].uplink.latency:", "without a unit"},
      {"invalid address", "10.0.3.2", "10.0.3",
       "f:21: racks[2].hosts[1].address:", "expected an IPv4 or IPv6 address"},
      {"address with a port", "10.0.3.2", "10.0.3.2:80",
       "f:21: racks[2].hosts[1].address:", "without a port"},
      {"address of all hosts", "10.0.3.2", "0.0.0.0",
       "f:21: racks[2].hosts[1].address:", "at which the other hosts reach this one"},
      {"address of a group", "10.0.3.2", "224.0.0.1",
       "f:21: racks[2].hosts[1].address:", "at which the other hosts reach this one"},
      {"address of a link", "10.0.3.2", "\"fe80::1\"",
       "f:21: racks[2].hosts[1].address:", "at which the other hosts reach this one"},
      {"IPv4 address as IPv6", "10.0.3.2", "\"::ffff:10.0.1.2\"",
       "f:21: racks[2].hosts[1].address:", "or IPv4-mapped address"},
      {"name with a comma", "name: b1", "name: \"b,1\"",
       "f:15: racks[1].hosts[0].name:", "a name of letters, digits"},
      {"host without address", ", address: 10.0.3.2, ranks: 1", ", ranks: 1",
       "f:21: racks[2].hosts[1].address:", "is missing"},
      {"port out of range", "port: 6000", "port: 66000",
       "f:8: racks[0].switch.port:", "a whole number from 1 to 65535"},
      {"more places than a fragment has", "port: 6000", "port: 6000, places: 17",
       "f:8: racks[0].switch.places:", "a whole number from 1 to 16"},
      {"window that is not a power of two", "window: 64", "window: 65",
       "f:22: servers[1].window:", "a power of two"},
      {"ranks that are not a number", "ranks: 2", "ranks: two",
       "f:11: racks[0].hosts[1].ranks:", "a whole number from 0 to 1024"},
      {"unknown key of a host", "ranks: 2", "rank: 2",
       "f:11: racks[0].hosts[1].\"rank\":", "did you mean ranks?"},
      {"lease shorter than refreshes allow", "lease: 60", "lease: 2",
       "f:22: servers[1].lease:", "from 3 to 3600"},
      {"two servers on one port", "{host: s2, port: 7000, window: 64, lease: 60}", "s1",
       "f:22: servers[1]:", "listens on 10.0.3.1:5500, as does servers[0] (line 22)"},
      {"switch and server on one port", "servers: [s1,", "servers: [{host: s1, port: 5501},",
       "f:22: servers[0]:", "listens on 10.0.3.1:5501, as does racks[2].switch (line 18)"},
      {"lanes whose ports overlap", "servers: [s1,", "lanes: 3\nservers: [{host: s1, port: 5505},",
       "f:23: servers[0]:", "listens on 10.0.3.1:5505-5507, as does racks[2].switch (line 18)"},
      {"lanes beyond the last port", "servers: [s1,",
       "lanes: 3\nservers: [{host: s1, port: 65534},",
       "f:23: servers[0]:", "needs 3 ports, one per lane, starting at 65534"},
      {"more lanes than a job has servers", "servers: [s1,", "lanes: 33\nservers: [s1,",
       "f:23: servers[1]:", "at most 64"},
      {"no servers", "servers: [s1, {host: s2, port: 7000, window: 64, lease: 60}]", "servers: []",
       "f:22: servers:", "expected at least one host"},
      {"unknown link", "  rack: {bandwidth", "  rak: {bandwidth",
       "f:4: links.\"rak\":", "did you mean rack?"},
  };
  for (const Mistake& mistake : mistakes) {
    expect_refused(kThreeRacks, mistake,
                   [](const std::string& text) { return parse_site(text, "f"); });
  }
}

TEST(Site, LanesUseConsecutivePorts) {
  std::string text = kThreeRacks;
  text += "lanes: 4\n";
  const Site site = site_of(text);
  EXPECT_EQ(site.lanes, 4u);
  EXPECT_EQ(site.racks[2].switch_node->port, 5504);  // after the server's
  EXPECT_THAT(route_text(site, site.find_host("a1").value()),
              HasSubstr("10.0.1.1:6000-6003,10.0.3.1:5504-5507,10.0.3.1:5500-5503;"));
}

TEST(Site, UplinksThatFormACycleAreNamed) {
  const Result<Site> site =
      parse_site("racks:\n" + rack_lines("x", "core", 1) + rack_lines("a", "b", 2) +
                     rack_lines("b", "c", 3) + rack_lines("c", "b", 4) + "servers: [x]",
                 "f");
  ASSERT_FALSE(site);
  EXPECT_EQ(
      site.error().message,
      "f:11: racks[2].uplink: its uplink leads back to itself (b > c > b); connect the uplink of "
      "one of them to core");
}

TEST(Site, ARackAboveItselfIsACycle) {
  const Result<Site> site = parse_site("racks:\n" + rack_lines("a", "a", 1) + "servers: [a]", "f");
  ASSERT_FALSE(site);
  EXPECT_THAT(site.error().message, HasSubstr("f:3: racks[0].uplink: its uplink leads back"));
}

TEST(Site, HasALimitedNumberOfRacks) {
  std::string text = "racks:\n";
  for (int rack = 0; rack < 1025; ++rack) text += "  - {name: r" + std::to_string(rack) + "}\n";
  const Result<Site> site = parse_site(text + "servers: [x]", "f");
  ASSERT_FALSE(site);
  EXPECT_EQ(site.error().message, "f:1: racks: found more than 1024 racks, expected at most 1024");
}

}  // namespace
}  // namespace atp
