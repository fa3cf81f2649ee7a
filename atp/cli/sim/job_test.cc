#include "atp/cli/sim/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "atp/config/site/site_reader.h"
#include "atp/config/text/testing_mistakes.h"

namespace atp {
namespace {

using testing::ElementsAre;

constexpr const char* kText = R"(
links:
  host: {bandwidth: 10 Gbit/s per direction, latency: 5 us}
  rack: {bandwidth: 40 Gbit/s per direction, latency: 1 us}
racks:
  - name: a
    uplink: core
    hosts: [{name: a1, address: 10.0.1.1, ranks: 2}]
  - name: b
    uplink: {to: core, bandwidth: 20 Gbit/s per direction}
    switch: {host: b0, aggregators: 512}
    hosts:
      - {name: b0, address: 10.0.2.1, bandwidth: 25 Gbit/s per direction}
      - {name: b1, address: 10.0.2.2}
  - name: s
    uplink: core
    switch: s0
    hosts: [{name: s0, address: 10.0.3.1}, {name: s1, address: 10.0.3.2}]
servers: [s1, b1]
)";

Result<sim::Plan> world(const std::string& text, std::uint32_t fragments = 5) {
  const Result<Site> site = parse_site(text, "f");
  EXPECT_TRUE(site) << site.error().message;
  const JobPlacement placement = place_job(site.value(), {"b1", "a1"}, 2).value();
  return read_or_error([&] { return world_of(site.value(), placement, fragments); });
}

TEST(SiteWorld, HasTheRacksSwitchesServersAndLinksOfTheFile) {
  const sim::Plan plan = world(kText).value();
  EXPECT_EQ(plan.switches, 2u);
  EXPECT_EQ(plan.servers, 2u);
  EXPECT_EQ(plan.switch_config.aggregators, 512u);
  EXPECT_THAT(plan.fabric.switch_rack, ElementsAre(1, 2));
  EXPECT_THAT(plan.fabric.server_rack, ElementsAre(2, 1));
  ASSERT_EQ(plan.fabric.rack_links.size(), 3u);
  EXPECT_EQ(plan.fabric.rack_links[0].bits_per_s, 40'000'000'000u);
  EXPECT_EQ(plan.fabric.rack_links[1].bits_per_s, 20'000'000'000u);
  EXPECT_EQ(plan.fabric.rack_links[0].delay, std::chrono::microseconds(1));
  EXPECT_EQ(plan.fabric.switch_links.at(0).bits_per_s, 25'000'000'000u);
  EXPECT_EQ(plan.fabric.server_links.at(0).delay, std::chrono::microseconds(5));
}

TEST(SiteWorld, EachServerHasItsPartOfTheTensorAndItsOwnTree) {
  const sim::Plan plan = world(kText).value();
  ASSERT_EQ(plan.jobs.size(), 2u);
  EXPECT_EQ(plan.jobs[0].operations[0].spec.count, 3u * kSiteValues);
  EXPECT_EQ(plan.jobs[1].operations[0].spec.count, 2u * kSiteValues);
  EXPECT_EQ(plan.jobs[1].first_stream, 2) << "each has an express stream";
  // Ranks 0 and 1 are on b1, behind b0; a1 has no switch of its own.
  EXPECT_THAT(plan.jobs[0].parent, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(plan.jobs[0].uplink, ElementsAre(1, -1));
  EXPECT_THAT(plan.jobs[1].parent, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(plan.jobs[1].uplink, ElementsAre(-1, 0));
  EXPECT_THAT(plan.jobs[0].rack, ElementsAre(1, 1, 0, 0));
}

TEST(SiteWorld, TheRanksOfAHostShareItsLink) {
  const sim::Plan plan = world(kText).value();
  for (const sim::LinkPlan& link : plan.jobs[0].link) EXPECT_EQ(link.bits_per_s, 2'500'000'000u);
}

TEST(SiteWorld, AServerWithoutAFragmentHasNoPart) {
  EXPECT_EQ(world(kText, 1).value().jobs.size(), 1u);
}

TEST(SiteWorld, AnErrorNamesLineAndKey) {
  const Mistake mistakes[] = {
      {"no bandwidth of a host", "host: {bandwidth: 10 Gbit/s per direction, latency: 5 us}",
       "host: {latency: 5 us}", "f:18: racks[2].hosts[0]: its bandwidth is missing",
       "add it here, or to links.host for all"},
      {"no bandwidth of a rack", "rack: {bandwidth: 40 Gbit/s per direction, latency",
       "rack: {latency", "f:7: racks[0].uplink: its bandwidth is missing",
       "add it here, or to links.rack for all"},
      {"a rack above a rack", "name: a\n    uplink: core", "name: a\n    uplink: b",
       "f:7: racks[0].uplink: leads to another rack", "only racks directly below the core"},
  };
  for (const Mistake& mistake : mistakes) {
    expect_refused(kText, mistake, [](const std::string& text) { return world(text); });
  }
}

}  // namespace
}  // namespace atp
