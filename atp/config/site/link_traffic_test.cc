#include "atp/config/site/link_traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "atp/config/site/testing_site.h"

namespace atp {
namespace {

using ::testing::HasSubstr;

// The traffic on links by name: hosts' links, and racks' uplinks as "^rack".
struct Carries {
  const char* link;
  double network;
  double ring;
};

JobPlacement placed(const Site& site, const std::string& hosts = "", std::uint32_t ranks = 0) {
  const Result<JobPlacement> placement = place_job(site, names_in(hosts), ranks);
  EXPECT_TRUE(placement) << placement.error().message;
  return placement ? placement.value() : JobPlacement();
}

double on_link(const Site& site, const LinkTraffic& traffic, const std::string& link) {
  for (std::size_t rack = 0; rack < site.racks.size(); ++rack) {
    if (link == "^" + site.racks[rack].name) return traffic.uplinks[rack];
  }
  return traffic.hosts[site.find_host(link).value()];
}

void expect_traffic(const Site& site, const JobPlacement& placement,
                    const std::vector<Carries>& links) {
  const LinkTraffic network = network_traffic(site, placement);
  const LinkTraffic ring = ring_traffic(site, placement);
  for (const Carries& each : links) {
    EXPECT_NEAR(on_link(site, network, each.link), each.network, 1e-12) << each.link;
    EXPECT_NEAR(on_link(site, ring, each.link), each.ring, 1e-12) << each.link << ", ring";
  }
}

TEST(LinkTraffic, OfASwitchsHostIsAllRanksTensorsAndTheSum) {
  const Site site = site_of(star_text(4, "s", "[p]"));
  expect_traffic(site, placed(site), {{"r1", 1, 1.5}, {"r4", 1, 1.5}, {"s", 5, 0}, {"p", 1, 0}});
}

TEST(LinkTraffic, OfAServerOnTheSwitchsHostStaysInside) {
  const Site site = site_of(star_text(4, "s", "[s]"));
  expect_traffic(site, placed(site), {{"r1", 1, 1.5}, {"s", 4, 0}, {"p", 0, 0}});
}

TEST(LinkTraffic, OfServersWithoutASwitchIsTheirPartOfEachTensor) {
  expect_traffic(site_of(star_text(4, "", "[p]")), placed(site_of(star_text(4, "", "[p]"))),
                 {{"r1", 1, 1.5}, {"p", 4, 0}});
  const Site two = site_of(star_text(4, "", "[s, p]"));
  expect_traffic(two, placed(two), {{"r1", 1, 1.5}, {"s", 2, 0}, {"p", 2, 0}});
}

TEST(LinkTraffic, OfServersOnTheRanksHostsEqualsARings) {
  const Site site = site_of(star_text(4, "", "[r1, r2, r3, r4]"));
  expect_traffic(site, placed(site), {{"r1", 1.5, 1.5}, {"r3", 1.5, 1.5}});
}

TEST(LinkTraffic, OfAHostAddsUpItsRanksExceptInARing) {
  const Site site = site_of(star_text(2, "s", "[p]"));
  expect_traffic(site, placed(site, "", 4), {{"r1", 4, 1.75}, {"s", 9, 0}, {"p", 1, 0}});
}

TEST(LinkTraffic, OfARingOfOneRankIsNone) {
  const Site site = site_of(star_text(1, "s", "[p]"));
  expect_traffic(site, placed(site), {{"r1", 1, 0}, {"s", 2, 0}, {"p", 1, 0}});
  EXPECT_EQ(slowest_link(site, ring_traffic(site, placed(site))).seconds_per_byte, 0);
}

TEST(LinkTraffic, OfAnUplinkIsOneSumIfItsRackHasASwitch) {
  for (const bool with_switches : {true, false}) {
    const Site site = site_of(two_racks_text(with_switches, "[p]"));
    const double up = with_switches ? 1 : 2;
    expect_traffic(site, placed(site), {{"a1", 1, 1.5}, {"^a", up, 1.5}, {"^b", up, 1.5}});
    expect_traffic(site, placed(site), {{"^p", 2 * up, 0}, {"p", 2 * up, 0}});
    expect_traffic(site, placed(site), {{"a0", with_switches ? 3.0 : 0.0, 0}});
  }
}

// The ring crosses between the racks twice: each uplink carries both hops.
TEST(LinkTraffic, OfARingFollowsTheOrderOfTheHosts) {
  const Site site = site_of(two_racks_text(true, "[p]"));
  expect_traffic(site, placed(site, "a1,b1,a2,b2"),
                 {{"a1", 1, 1.5}, {"^a", 1, 3}, {"^b", 1, 3}, {"^p", 2, 0}});
}

// Half of each tensor goes to a0's rack, whose server is on the switch's host, half to b0's.
TEST(LinkTraffic, OfServersInTheRanksRacksPartlyCrossesTheUplinks) {
  const Site site = site_of(two_racks_text(true, "[a0, b0]"));
  // In: two tensors from its own rack, and b0's half sum; out: its own half sum.
  expect_traffic(site, placed(site), {{"^a", 1, 1.5}, {"a0", 3, 0}, {"^p", 0, 0}});
}

TEST(SlowestLink, HasTheMostTrafficForItsBandwidth) {
  const Site site = site_of(two_racks_text(true, "[p]"));
  const SiteBottleneck network = slowest_link(site, network_traffic(site, placed(site)));
  ASSERT_TRUE(network.rack) << "2 tensors at half the bandwidth with which a0 carries 3";
  EXPECT_EQ(site.racks[*network.rack].name, "p");
  EXPECT_DOUBLE_EQ(network.tensors, 2);
  EXPECT_DOUBLE_EQ(network.bandwidth, 0.5e9);
  EXPECT_DOUBLE_EQ(network.seconds_per_byte, 2 * 1514.0 / 1400 / 0.5e9);
  const SiteBottleneck ring = slowest_link(site, ring_traffic(site, placed(site)));
  ASSERT_TRUE(ring.rack) << "half as fast as the hosts' links";
  EXPECT_EQ(site.racks[*ring.rack].name, "a");
  EXPECT_DOUBLE_EQ(ring.seconds_per_byte, 1.5 * 1538 / 1448 / 0.5e9);
}

TEST(SlowestLink, ReportsTheKeyAndLineOfAMissingBandwidth) {
  const struct {
    const char* without;
    const char* message;
  } rows[] = {
      {"  host: {bandwidth: 1 GB/s per direction}\n",
       "f:8: racks[0].hosts[0]: its bandwidth is missing, expected a bandwidth such as"},
      {"  rack: {bandwidth: 0.5 GB/s per direction}\n",
       "f:5: racks[0].uplink: its bandwidth is missing, expected a bandwidth such as"},
  };
  for (const auto& row : rows) {
    std::string text = two_racks_text(true, "[p]");
    text.erase(text.find(row.without), std::string(row.without).size());
    const Site site = site_of(text);
    const auto link =
        read_or_error([&] { return slowest_link(site, network_traffic(site, placed(site))); });
    ASSERT_FALSE(link);
    EXPECT_THAT(link.error().message, HasSubstr(row.message));
    EXPECT_THAT(link.error().message, HasSubstr("add it here, or to links."));
  }
}

TEST(SlowestLink, NeedsOnlyTheBandwidthsOfUsedLinks) {
  const Site site = site_of(star_text(2, "", "[p]"));
  Site without = site;
  without.hosts[without.find_host("s").value()].link.bandwidth = 0;
  EXPECT_EQ(slowest_link(without, network_traffic(without, placed(without))).seconds_per_byte,
            slowest_link(site, network_traffic(site, placed(site))).seconds_per_byte);
}

TEST(LineRate, IsEachRanksTensorOnceOverItsHostsLink) {
  const Site site = site_of(star_text(4, "s", "[p]"));
  EXPECT_DOUBLE_EQ(line_rate(site, placed(site)), 1514.0 / 1400 / 1e9);
  EXPECT_DOUBLE_EQ(line_rate(site, placed(site, "r1,r2", 3)), 3 * 1514.0 / 1400 / 1e9);
}

}  // namespace
}  // namespace atp
