#include "atp/cli/run/host_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "atp/config/site/expected_times.h"
#include "atp/config/site/testing_site.h"

namespace atp {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Key;
using testing::Not;
using testing::Pair;

constexpr const char* kText = R"(
links:
  host: {bandwidth: 10 Gbit/s per direction}
  rack: {bandwidth: 4 Gbit/s per direction}
racks:
  - name: a
    uplink: core
    switch: {host: a0, aggregators: 1024, quota: 100, places: 8}
    hosts:
      - {name: a0, address: 10.0.1.1}
      - {name: a1, address: 10.0.1.2, ranks: 2}
  - name: s
    uplink: core
    switch: s1
    hosts:
      - {name: s1, address: "fd00::1"}
      - {name: s2, address: 10.0.3.2, ranks: 1}
servers: [s1, {host: s1, port: 7000, window: 64, lease: 60}]
)";

Site site() { return site_of(kText); }

JobEnvironment environment(const char* host, const JobOptions& options) {
  const Site all = site();
  const JobPlacement placement = place_job(all, {}, 0).value();
  return environment_of(all, placement, *placement.on_host(all.find_host(host).value()), options);
}

TEST(SitePart, ASwitchMaySendToTheNextHopAtTheBandwidthOfThePath) {
  const std::vector<NodePlan> plans = nodes_of(site(), 0);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].role, "switch");
  EXPECT_EQ(plans[0].name, "switch-a");
  EXPECT_EQ(plans[0].listen, "10.0.1.1:5501");
  EXPECT_THAT(plans[0].arguments,
              ElementsAre("--upstream", "fd00::1", "--aggregators", "1024", "--quota", "100",
                          "--places", "8", "--uplink-rate", "4"));
}

TEST(SitePart, WithoutAHostsBandwidthTheUplinksIsUsed) {
  std::string text = kText;
  const std::string host = "  host: {bandwidth: 10 Gbit/s per direction}\n";
  text.erase(text.find(host), host.size());
  const Site site = parse_site(text, "f").value();
  EXPECT_THAT(nodes_of(site, 0).at(0).arguments, IsSupersetOf({"--uplink-rate", "4"}));
  EXPECT_THAT(nodes_of(site, 2).at(2).arguments, Not(Contains("--uplink-rate")));
}

TEST(SitePart, AHostMayHaveSeveralNodesWithDifferentNames) {
  const std::vector<NodePlan> plans = nodes_of(site(), 2);
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(plans[0].name, "server-s1-5500");
  EXPECT_EQ(plans[0].listen, "[fd00::1]:5500");
  EXPECT_THAT(plans[0].arguments, IsEmpty());
  EXPECT_EQ(plans[1].name, "server-s1-7000");
  EXPECT_THAT(plans[1].arguments, ElementsAre("--window", "64", "--lease", "60"));
  // Its server is in the same rack, so the uplink does not matter.
  EXPECT_THAT(plans[2].arguments, ElementsAre("--upstream", "fd00::1", "--uplink-rate", "10"));
}

TEST(SitePart, LanesShareTheBandwidthOfThePath) {
  const std::vector<NodePlan> plans = nodes_of(site_of(std::string(kText) + "lanes: 2\n"), 0);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].listen, "10.0.1.1:5502");
  EXPECT_THAT(plans[0].arguments, IsSupersetOf({"--lanes", "2", "--uplink-rate"}));
}

TEST(SitePart, AHostOfWorkersHasNoNodes) { EXPECT_THAT(nodes_of(site(), 1), IsEmpty()); }

TEST(SitePart, RanksGetTheJobAndTheirPlaceInIt) {
  unsetenv("OMP_NUM_THREADS");
  const Site all = site();
  EXPECT_THAT(
      environment("a1", {.job = 7, .incarnation = 3}).of_rank(1),
      ElementsAre(Pair("RANK", "1"), Pair("LOCAL_RANK", "1"), Pair("WORLD_SIZE", "3"),
                  Pair("LOCAL_WORLD_SIZE", "2"), Pair("MASTER_ADDR", "10.0.1.2"),
                  Pair("MASTER_PORT", "29507"), Pair("ATP_JOB", "7"), Pair("ATP_INCARNATION", "3"),
                  Pair("ATP_ROUTE",
                       "10.0.1.1:5501,[fd00::1]:5501,[fd00::1]:5500;"
                       "10.0.1.1:5501,[fd00::1]:5501,[fd00::1]:7000"),
                  Pair("ATP_HOST_RANKS", "2,1"),
                  Pair("ATP_EXPECTED_TIMES",
                       to_text(expected_times(all, place_job(all, {}, 0).value(), true).value())),
                  Pair("OMP_NUM_THREADS", "1")));
}

TEST(SitePart, RanksOfALaterHostFollow) {
  EXPECT_THAT(
      environment("s2", {.master_port = 1234}).of_rank(2),
      AllOf(Contains(Pair("RANK", "2")), Contains(Pair("LOCAL_RANK", "0")),
            Contains(Pair("LOCAL_WORLD_SIZE", "1")), Contains(Pair("MASTER_ADDR", "10.0.1.2")),
            Contains(Pair("MASTER_PORT", "1234")), Not(Contains(Key("ATP_INCARNATION")))));
}

}  // namespace
}  // namespace atp
