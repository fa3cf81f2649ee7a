#include "atp/config/site/job_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "atp/config/site/testing_site.h"

namespace atp {
namespace {

using testing::HasSubstr;

TEST(JobPlacement, UsesTheFilesHostsOrTheNamedOnesInTheirOrder) {
  const Site site = site_of(kThreeRacks);
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

TEST(JobPlacement, AnImpossiblePlacementIsRefused) {
  const Site site = site_of(kThreeRacks);
  const struct {
    std::vector<std::string> hosts;
    std::uint32_t ranks_per_host;
    const char* error;
  } rows[] = {
      {{"a9"}, 0, "f has no host \"a9\"; did you mean a0?"},
      {{"a1", "a1"}, 0, "host a1 is listed twice"},
      {{"a1", ""}, 0, "found an empty name among the job's hosts"},
      {{"s1"}, 0, "f:20: racks[2].hosts[0]: host s1 has no ranks; give it `ranks`"},
      {{}, 1000, "the job has 3000 ranks, expected at most 1024"},
  };
  for (const auto& row : rows) {
    const Result<JobPlacement> placement = place_job(site, row.hosts, row.ranks_per_host);
    ASSERT_FALSE(placement) << row.error;
    EXPECT_THAT(placement.error().message, HasSubstr(row.error));
  }
}

}  // namespace
}  // namespace atp
