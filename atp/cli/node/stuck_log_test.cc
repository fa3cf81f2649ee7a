#include "atp/cli/node/stuck_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atp {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

StuckRanks stuck(std::vector<Rank> ranks, Duration waited, std::uint32_t job = 7) {
  StuckRanks result{.job = {job, 1}, .ranks = {}, .waited = waited};
  for (const Rank rank : ranks) {
    const Endpoint home = Endpoint::ipv4(10, 0, 1, static_cast<std::uint8_t>(rank), 7000);
    result.ranks.emplace_back(rank, rank < 4 ? home : Endpoint{});
  }
  return result;
}

TEST(StuckLog, SaysOnceThatAnEpisodeBeginsAndOnceThatItEnds) {
  StuckLog log;
  EXPECT_THAT(log.lines({}), IsEmpty());
  EXPECT_THAT(log.lines({stuck({2}, milliseconds(1040))}),
              ElementsAre("job 7 has waited 1 s for rank 2 (10.0.1.2)"));
  EXPECT_THAT(log.lines({stuck({2}, milliseconds(4170))}), IsEmpty());
  EXPECT_THAT(log.lines({}),
              ElementsAre("job 7 no longer waits for rank 2 (10.0.1.2), after 4.1 s"));
  EXPECT_THAT(log.lines({}), IsEmpty());
}

TEST(StuckLog, NamesThoseThatJoinThem) {
  StuckLog log;
  log.lines({stuck({2}, milliseconds(1000))});
  EXPECT_THAT(log.lines({stuck({2, 5}, milliseconds(2000))}),
              ElementsAre("job 7 has waited 2 s for ranks 2 (10.0.1.2), 5"));
  EXPECT_THAT(log.lines({stuck({5}, milliseconds(2500))}), IsEmpty());
}

TEST(StuckLog, KeepsJobsApart) {
  StuckLog log;
  EXPECT_EQ(
      log.lines({stuck({2}, milliseconds(1000), 7), stuck({2}, milliseconds(1000), 8)}).size(), 2U);
  EXPECT_THAT(log.lines({stuck({2}, milliseconds(1500), 8)}),
              ElementsAre("job 7 no longer waits for rank 2 (10.0.1.2), after 1 s"));
}

}  // namespace
}  // namespace atp
