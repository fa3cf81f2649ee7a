#include "atp/config/interconnect/site_interconnect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "atp/config/interconnect/interconnect_file.h"
#include "atp/config/text/testing_mistakes.h"
#include "atp/planner/planner.h"

namespace atp {
namespace {

// A rack with two hosts, named after the rack with 1 and 2 appended.
std::string even_rack(const std::string& name, int number, bool with_switch) {
  const std::string host = "      - {name: " + name;
  const std::string address = ", address: 10.0." + std::to_string(number) + ".";
  std::string text = "  - name: " + name + "\n    uplink: core\n";
  if (with_switch) text += "    switch: {host: " + name + "1, aggregators: 500}\n";
  return text + "    hosts:\n" + host + "1" + address + "1, ranks: 1}\n" + host + "2" + address +
         "2, ranks: 1}\n";
}

// Racks a and b, and a third rack with a server and optionally a switch.
std::string even_text(bool with_switches, bool above) {
  std::string text =
      "links:\n  host: {bandwidth: 10 Gbit/s per direction, latency: 5 us}\n"
      "  rack: {bandwidth: 40 Gbit/s per direction, latency: 1 us}\nracks:\n";
  text += even_rack("a", 0, with_switches) + even_rack("b", 1, with_switches);
  text += "  - name: s\n    uplink: core\n";
  if (above) text += "    switch: s0\n";
  return text +
         "    hosts: [{name: s0, address: 10.0.9.9, ranks: 0}, {name: s1, address: 10.0.9.8, "
         "ranks: 0}]\n"
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
  EXPECT_EQ(host.aggregation->window, 181u);
  EXPECT_EQ(host.aggregation->server_hosts, 1u);
  EXPECT_DOUBLE_EQ(host.aggregation->server_bandwidth.value, 1.25e9);
  EXPECT_DOUBLE_EQ(host.aggregation->switch_bandwidth.value, 1.25e9);
  EXPECT_FALSE(rack.aggregation->fallback_share);
}

TEST(SiteInterconnect, WithoutASwitchAboveTheRacksTheServersAddUpSums) {
  const planner::Interconnect interconnect = interconnect_of_text(even_text(true, false));
  ASSERT_TRUE(interconnect.levels.at(0).aggregation);
  EXPECT_EQ(interconnect.levels[0].aggregation->fallback_share, 1);
  EXPECT_EQ(interconnect.levels[0].aggregation->switch_bandwidth.value, 0);
  EXPECT_FALSE(interconnect.levels[1].aggregation->fallback_share);
}

TEST(SiteInterconnect, WithoutSwitchesInTheRacksNothingAggregates) {
  for (const planner::Level& level : interconnect_of_text(even_text(false, true)).levels) {
    EXPECT_FALSE(level.aggregation) << level.name;
  }
}

// If a rack's server is elsewhere, its sums cross the rack's uplink in both directions. Each server
// sums for all racks.
TEST(SiteInterconnect, SumsInsideARackLeaveItForTheServers) {
  struct Row {
    const char* servers;
    double uplink_sums;
  };
  // The uplink of s, the rack with only servers, carries both racks' sums.
  for (const Row& row : {Row{"[s1]", 2}, Row{"[a1]", 1}, Row{"[a1, b1]", 1}, Row{"[a1, a2, b1]", 1},
                         Row{"[a1, s1]", 1}}) {
    std::string text = even_text(true, true);
    text.replace(text.find("servers: [s1]"), 13, std::string("servers: ") + row.servers);
    const planner::Aggregation found = *interconnect_of_text(text).levels.at(1).aggregation;
    EXPECT_DOUBLE_EQ(found.uplink_sums, row.uplink_sums) << row.servers;
    EXPECT_EQ(found.shared_by, 2u);
  }
}

// Dimension 2 runs inside the racks, but its sums still fill the link between them.
TEST(SiteInterconnect, TheLinkBetweenRacksCanLimitGroupsInsideThem) {
  std::string text = even_text(true, false);
  text.replace(text.find("40 Gbit/s"), 9, "0.05 Gbit/s");
  const planner::Interconnect interconnect = interconnect_of_text(text);
  const auto seconds =
      planner::all_reduce_seconds(interconnect, {{2, 1}, {1, 2}}, planner::Dimension::k2, 1e6,
                                  planner::CollectiveSet::only(planner::Collective::kInNetwork), 4);
  ASSERT_TRUE(seconds) << seconds.error().message;
  // One group per rack; the uplink of the server's rack carries both sums.
  EXPECT_NEAR(seconds.value(), 2 * 1e6 * 1514 / 1400 / (0.05e9 / 8), 1e-3);
}

TEST(SiteInterconnect, APartConsistsOfTheHostsOfAJob) {
  const auto part = [](std::vector<std::string> hosts, std::uint32_t ranks = 0) {
    return parse_cluster(even_text(true, true), "f", {std::move(hosts), ranks});
  };
  const Result<Cluster> one_rack = part({"b2", "b1"});
  ASSERT_TRUE(one_rack) << one_rack.error().message;
  EXPECT_EQ(one_rack.value().interconnect.levels.at(0).name, "host");
  EXPECT_EQ(planner::device_count(one_rack.value().interconnect), 2u);
  EXPECT_THAT(one_rack.value().interconnect.job_ranks, testing::ElementsAre(1, 0))
      << "b1 comes first in the file, b2 in the job";
  const Result<Cluster> across = part({"a1", "b1"});
  ASSERT_TRUE(across) << across.error().message;
  EXPECT_EQ(across.value().interconnect.levels.at(0).name, "rack");
  EXPECT_THAT(part({"x"}).error().message, testing::HasSubstr("x"));
  EXPECT_THAT(part({"a1", "a2", "b1"}).error().message,
              testing::HasSubstr("supports only racks of equal size"));
  EXPECT_THAT(parse_cluster("levels: [{name: a, count: 2, kind: switch, bandwidth: 1 GB/s per "
                            "direction}]",
                            "f", {{"a1"}, 0})
                  .error()
                  .message,
              testing::HasSubstr("has no racks"));
}

TEST(SiteInterconnect, LevelsInTheFileTakePrecedence) {
  const std::string text = even_text(true, true) +
                           "levels:\n  - {name: gpu, count: 7, kind: full, "
                           "bandwidth: 1 GB/s per direction}\n";
  EXPECT_EQ(interconnect_of_text(text).levels.at(0).count, 7u);
}

TEST(SiteInterconnect, UnsupportedSitesAreRefused) {
  const Mistake mistakes[] = {
      {"racks of different size", "b2, address: 10.0.1.2, ranks: 1",
       "b2, address: 10.0.1.2, ranks: 0", "f:12: racks[1].uplink: has 1 host with ranks",
       "but the first has 2, and the planner supports only racks of equal size"},
      {"hosts of different size", "b2, address: 10.0.1.2, ranks: 1",
       "b2, address: 10.0.1.2, ranks: 3", "f:16: racks[1].hosts[1]: has 3 ranks",
       "but the first host has 1, and the planner supports only hosts of equal size"},
      {"no bandwidth of a host", "host: {bandwidth: 10 Gbit/s per direction, latency",
       "host: {latency", "f:9: racks[0].hosts[0]: its bandwidth is missing",
       "add it here, or to links.host for all"},
      {"no bandwidth of a rack", "rack: {bandwidth: 40 Gbit/s per direction, latency",
       "rack: {latency", "f:6: racks[0].uplink: its bandwidth is missing",
       "add it here, or to links.rack for all"},
      {"a rack above a rack", "name: b\n    uplink: core", "name: b\n    uplink: s",
       "f:12: racks[1].uplink: leads to another rack", "write `levels` for the planner"},
  };
  for (const Mistake& mistake : mistakes) {
    expect_refused(even_text(true, true), mistake,
                   [](const std::string& text) { return parse_cluster(text, "f"); });
  }
}

}  // namespace
}  // namespace atp
