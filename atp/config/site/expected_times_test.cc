#include "atp/config/site/expected_times.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "atp/config/site/link_traffic.h"
#include "atp/config/site/testing_site.h"

namespace atp {
namespace {

ExpectedTimes times_of(const std::string& text) {
  const Site site = site_of(text);
  const auto times = expected_times(site, place_job(site, {}, 0).value(), false);
  EXPECT_TRUE(times.has_value());
  return times.value_or(ExpectedTimes());
}

struct Case {
  const char* name;
  std::string text;
  double network_ns_per_byte;  // framing apart: all links have 1 GB/s, uplinks half of that
  double ring_ns_per_byte;
  double network_hops;
  double ring_hops;
};

TEST(ExpectedTimes, AreThoseOfTheFullestLinkAndTheNodesOnThePath) {
  const std::vector<Case> cases = {
      {"a switch on a host like the four ranks' carries five times a rank's traffic",
       star_text(4, "s", "[p]"), 5, 1.5, 8, 12},
      {"with its server on the same host it carries four times that", star_text(4, "s", "[s]"), 4,
       1.5, 8, 12},
      {"two servers without a switch share it", star_text(4, "", "[s, p]"), 2, 1.5, 4, 12},
      {"racks have uplinks of half the bandwidth", two_racks_text(true, "[p]"), 4, 3, 8, 12},
  };
  for (const Case& each : cases) {
    const ExpectedTimes times = times_of(each.text);
    EXPECT_NEAR(times.network.seconds_per_byte, each.network_ns_per_byte * 1e-9 * kNetworkFraming,
                1e-15)
        << each.name;
    EXPECT_NEAR(times.ring.seconds_per_byte, each.ring_ns_per_byte * 1e-9 * kRingFraming, 1e-15)
        << each.name;
    EXPECT_NEAR(times.network.latency_s, each.network_hops * 30e-6, 1e-12) << each.name;
    EXPECT_NEAR(times.ring.latency_s, each.ring_hops * 30e-6, 1e-12) << each.name;
  }
}

TEST(ExpectedTimes, RanksThatSumOnTheirHostsSendOneTensorPerHost) {
  const Site site = site_of(star_text(4, "s", "[p]"));
  const JobPlacement placement = place_job(site, {}, 3).value();
  const auto apart = expected_times(site, placement, false);
  const auto together = expected_times(site, placement, true);
  ASSERT_TRUE(apart && together);
  EXPECT_NEAR(apart->network.seconds_per_byte, 13e-9 * kNetworkFraming, 1e-15);
  EXPECT_NEAR(together->network.seconds_per_byte, 5e-9 * kNetworkFraming, 1e-15);
  EXPECT_EQ(apart->ring.seconds_per_byte, together->ring.seconds_per_byte);
}

TEST(ExpectedTimes, ALinksLatencyCountsAtBothEndsOfAHop) {
  std::string text = star_text(2, "s", "[p]");
  const std::string link = "{bandwidth: 1 GB/s per direction}";
  text.replace(text.find(link), link.size(), "{bandwidth: 1 GB/s per direction, latency: 10 us}");
  EXPECT_NEAR(times_of(text).network.latency_s, 8 * 50e-6, 1e-12);
  EXPECT_NEAR(times_of(text).ring.latency_s, 4 * 50e-6, 1e-12);
}

TEST(ExpectedTimes, AreUnknownWithoutBandwidthsOrOnOneHost) {
  std::string text = star_text(2, "s", "[p]");
  const std::string links = "links:\n  host: {bandwidth: 1 GB/s per direction}\n";
  Site site = site_of(star_text(1, "s", "[p]"));
  EXPECT_FALSE(expected_times(site, place_job(site, {}, 0).value(), false));
  text.erase(text.find(links), links.size());
  site = site_of(text);
  EXPECT_FALSE(expected_times(site, place_job(site, {}, 0).value(), false));
}

TEST(ExpectedTimes, AreWrittenInSeconds) {
  EXPECT_EQ(to_text({.network = {0.00024, 4.2e-8}, .ring = {0.0003, 1.25e-8}}),
            "innetwork=0.00024,4.2e-08;ring=0.0003,1.25e-08");
}

}  // namespace
}  // namespace atp
