#include "atp/config/site/aggregation_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "atp/config/site/testing_site.h"

namespace atp {
namespace {

using ::testing::ElementsAre;

// The ratio without framing: the 2(N-1)/N tensors of a ring over those of the fullest link.
double ratio(const AggregationForecast& forecast, std::uint32_t hosts) {
  return forecast.ratio(forecast.rows[hosts]) * kNetworkFraming / kRingFraming;
}

struct Asked {
  Site site;
  JobPlacement placement;
  AggregationForecast forecast;
};

Asked ask(const std::string& text, std::uint32_t most, const AddedHosts& added = {}) {
  Asked asked{.site = site_of(text)};
  asked.placement = place_job(asked.site, {}, 0).value();
  asked.forecast = forecast_aggregation(asked.site, asked.placement, added, most);
  return asked;
}

// The text with a different bandwidth for the host `name`.
std::string with_bandwidth(std::string text, const std::string& name, const std::string& rate) {
  const std::size_t at = text.find(", ranks", text.find("{name: " + name + ","));
  return text.insert(at, ", bandwidth: " + rate + " GB/s per direction");
}

TEST(AggregationForecast, MatchesTheBenchmarksBoundsForFourEqualLinks) {
  const AggregationForecast forecast = ask(star_text(4, "s", "[p]"), 4).forecast;
  ASSERT_EQ(forecast.rows.size(), 5u);
  EXPECT_DOUBLE_EQ(ratio(forecast, 0), 1.5 / 5) << "one switch with a server behind it";
  for (std::uint32_t hosts = 1; hosts <= 4; ++hosts) {
    EXPECT_NEAR(ratio(forecast, hosts), 1.5 * hosts / 4, 1e-12) << hosts << " without the switch";
    EXPECT_FALSE(forecast.rows[hosts].with_switches);
  }
  EXPECT_EQ(forecast.faster_from(), 3u);
  EXPECT_EQ(forecast.line_rate_from(), 4u);
}

TEST(AggregationForecast, CountsTheHeadersOfSumsAndRing) {
  const AggregationForecast forecast = ask(star_text(4, "s", "[p]"), 4).forecast;
  const struct {
    std::uint32_t hosts;
    double ratio;
  } rows[] = {{0, 0.29}, {1, 0.37}, {2, 0.74}, {4, 1.47}};
  for (const auto& row : rows) {
    EXPECT_NEAR(forecast.ratio(forecast.rows[row.hosts]), row.ratio, 0.005) << row.hosts;
  }
}

TEST(AggregationForecast, StaysAtTheLineRateWithMoreHostsThanRanks) {
  const AggregationForecast forecast = ask(star_text(4, "", "[p]"), 9).forecast;
  EXPECT_NEAR(ratio(forecast, 9), 1.5, 1e-12);
  EXPECT_EQ(forecast.faster_from(), 3u);
  EXPECT_EQ(forecast.line_rate_from(), 4u);
  EXPECT_EQ(forecast.best().hosts, 4u);
}

TEST(AggregationForecast, NeedsNoHostsWithAFastSwitch) {
  const Asked asked = ask(with_bandwidth(star_text(4, "s", "[p]"), "s", "5"), 4);
  const AggregationForecast& forecast = asked.forecast;
  EXPECT_TRUE(forecast.is_line_rate(forecast.rows[0]));
  EXPECT_NEAR(ratio(forecast, 0), 1.5, 1e-12);
  for (std::uint32_t hosts = 1; hosts <= 3; ++hosts) {
    EXPECT_TRUE(forecast.rows[hosts].with_switches) << "faster than " << hosts << " servers alone";
  }
  EXPECT_FALSE(forecast.rows[4].with_switches) << "as fast without";
  EXPECT_EQ(forecast.faster_from(), 1u);
  EXPECT_FALSE(links_to_beat_ring(asked.site, asked.placement, forecast))
      << "the ring is already slower";
}

TEST(AggregationForecast, NeedsFewerHostsWithFastLinks) {
  const AddedHosts wide{.bandwidth = 4e9};
  EXPECT_EQ(ask(star_text(4, "s", "[p]"), 4, wide).forecast.line_rate_from(), 1u);
  const AddedHosts narrow{.bandwidth = 0.5e9};
  const AggregationForecast forecast = ask(star_text(4, "s", "[p]"), 8, narrow).forecast;
  EXPECT_EQ(forecast.faster_from(), 6u);
  EXPECT_EQ(forecast.line_rate_from(), 8u);
}

TEST(AggregationForecast, GivesAddedHostsTheSlowestRanksBandwidthByDefault) {
  const AggregationForecast forecast =
      ask(with_bandwidth(star_text(4, "", "[p]"), "r2", "0.25"), 1).forecast;
  EXPECT_DOUBLE_EQ(forecast.rows[1].bound.bandwidth, 0.25e9);
}

TEST(AggregationForecast, HasNoCrossoverForTwoRanks) {
  const AggregationForecast forecast = ask(star_text(2, "s", "[p]"), 2).forecast;
  EXPECT_NEAR(ratio(forecast, 2), 1, 1e-12) << "a ring also sends each tensor once";
  EXPECT_FALSE(forecast.faster_from()) << "our headers are larger";
  EXPECT_EQ(forecast.line_rate_from(), 2u);
}

TEST(AggregationForecast, IsEmptyForOneHostBecauseNoLinkIsUsed) {
  EXPECT_TRUE(ask(star_text(1, "s", "[p]"), 1).forecast.rows.empty());
  const Site site = site_of(star_text(4, "s", "[p]"));
  const JobPlacement placement = place_job(site, {"r1"}, 4).value();
  EXPECT_TRUE(forecast_aggregation(site, placement, {}, 4).rows.empty());
}

// A switch on a host with a rank's link: it carries a tensor of each host and the sum.
TEST(AggregationForecast, CountsOneTensorPerHostBecauseItsRanksSumInMemory) {
  const Site site = site_of(star_text(2, "s", "[p]"));
  for (const std::uint32_t ranks_per_host : {1U, 4U}) {
    const JobPlacement placement = place_job(site, {}, ranks_per_host).value();
    const AggregationForecast forecast = forecast_aggregation(site, placement, {}, 2);
    EXPECT_DOUBLE_EQ(forecast.rows[0].bound.tensors, 3) << ranks_per_host;
    EXPECT_DOUBLE_EQ(forecast.rows[2].bound.tensors, 1) << ranks_per_host;
    EXPECT_TRUE(forecast.is_line_rate(forecast.rows[2])) << ranks_per_host;
    const double n = 2.0 * ranks_per_host;
    EXPECT_DOUBLE_EQ(forecast.ring.tensors, 2 * (n - 1) / n) << "all ranks are in the ring";
    EXPECT_EQ(forecast.faster_from().has_value(), ranks_per_host > 1);
  }
}

// Racks a and b with two ranks each, and uplinks half as fast as a host's link.
TEST(AggregationForecast, IsBoundByTheUplinksOfTwoRacks) {
  const struct {
    const char* what;
    bool with_switches;
    AddedHosts added;
    std::vector<double> tensors;  // on the fullest link, by number of added hosts
  } rows[] = {
      // p's uplink; a0, which carries its ranks' tensors, b's sum and the result; half of that, and
      // 2 + 1 halves.
      {"with switches", true, {}, {2, 4, 3.5}},
      // p's uplink; the host, or the uplinks: two ranks' halves in each direction.
      {"without", false, {}, {4, 4, 2}},
      {"in the servers' rack", false, {.racks = {2}}, {4, 4, 4}},
  };
  for (const auto& row : rows) {
    const AggregationForecast forecast =
        ask(two_racks_text(row.with_switches, "[p]"), 2, row.added).forecast;
    for (std::uint32_t hosts = 0; hosts < row.tensors.size(); ++hosts) {
      EXPECT_DOUBLE_EQ(forecast.rows[hosts].bound.tensors, row.tensors[hosts])
          << row.what << ", " << hosts;
    }
  }
}

TEST(WiderLinks, CoverAllSwitchesAndServersThatAreBottlenecks) {
  const Asked one = ask(star_text(4, "s", "[p]"), 1);
  const auto wider = links_to_beat_ring(one.site, one.placement, one.forecast);
  ASSERT_TRUE(wider);
  EXPECT_THAT(wider->hosts, ElementsAre(one.site.find_host("s").value()));
  EXPECT_DOUBLE_EQ(wider->bandwidth, 5 / 1.5 * 1e9 * kNetworkFraming / kRingFraming);
  // Slightly more than that beats the ring, slightly less does not.
  for (const auto& [factor, is_faster] : {std::pair{1.001, true}, std::pair{0.999, false}}) {
    const std::string rate = std::to_string(wider->bandwidth * factor / 1e9);
    const Asked changed = ask(with_bandwidth(star_text(4, "s", "[p]"), "s", rate), 1);
    EXPECT_EQ(changed.forecast.is_faster(changed.forecast.rows[0]), is_faster) << rate;
  }
}

TEST(WiderLinks, AreNoneIfTheRanksLinksAreBottlenecksToo) {
  const Asked two_ranks = ask(star_text(2, "s", "[p]"), 1);
  EXPECT_FALSE(links_to_beat_ring(two_ranks.site, two_ranks.placement, two_ranks.forecast));
}

}  // namespace
}  // namespace atp
