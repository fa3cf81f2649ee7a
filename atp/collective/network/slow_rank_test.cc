#include "atp/collective/network/slow_rank.h"

#include <gtest/gtest.h>

#include <vector>

namespace atp {
namespace {

using namespace std::chrono_literals;

// Plays steps of this length with a wait for `missing` at the end of each; returns the findings.
std::vector<SlowRank::Found> play(SlowRank& slow, Duration step, Duration wait,
                                  const RankSet& missing, Duration length,
                                  Instant begin = Instant{1h}) {
  std::vector<SlowRank::Found> all;
  for (Instant now = begin; now < begin + length; now += step) {
    slow.observe(now + step - wait, missing);
    if (const auto found = slow.observe(now + step, {})) all.push_back(*found);
  }
  return all;
}

TEST(SlowRank, ARankThatIsWaitedForMostOfTheTimeIsFoundOnce) {
  SlowRank slow(0);
  const auto found = play(slow, 100ms, 60ms, RankSet::of(2), 1min);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 2);
  EXPECT_GE(found[0].window, 10s);
  EXPECT_GT(2 * found[0].waited, found[0].window);
  EXPECT_LE(found[0].waited, found[0].window);
}

TEST(SlowRank, AllWaitsAreAddedUpByRankLongOnesIncluded) {
  SlowRank slow(0);
  EXPECT_EQ(slow.waits(), nullptr);
  play(slow, 100ms, 30ms, RankSet::of(2), 1s);
  const auto before = slow.waits();
  play(slow, 10s, 4s, RankSet::of(1), 10s, Instant{2h});
  EXPECT_EQ(*before, (SlowRank::Waits{{2, 300ms}}));
  EXPECT_EQ(*slow.waits(), (SlowRank::Waits{{1, 4s}, {2, 300ms}}));
}

TEST(SlowRank, IsNotOneThatIsWaitedForLessThanHalfOfTheTime) {
  SlowRank slow(0);
  EXPECT_TRUE(play(slow, 100ms, 45ms, RankSet::of(2), 1min).empty());
}

TEST(SlowRank, IsNotOneOfSeveralAwaitedTogether) {
  SlowRank slow(0);
  RankSet two = RankSet::of(1);
  two.insert(2);
  EXPECT_TRUE(play(slow, 100ms, 90ms, two, 1min).empty());
}

TEST(SlowRank, IsNotThisRankItself) {
  SlowRank slow(2);
  EXPECT_TRUE(play(slow, 100ms, 90ms, RankSet::of(2), 1min).empty());
}

TEST(SlowRank, IsNotOneThatIsStuck) {
  SlowRank slow(0);
  EXPECT_TRUE(play(slow, 5s, 4s, RankSet::of(2), 1min).empty())
      << "such waits are reported one by one";
}

TEST(SlowRank, IsFoundAfterALongIdleTime) {
  SlowRank slow(0);
  slow.observe(Instant{1s}, RankSet::of(1));
  slow.observe(Instant{1s} + 10ms, {});
  EXPECT_EQ(play(slow, 100ms, 60ms, RankSet::of(2), 1min).size(), 1U);
}

TEST(SlowRank, IsReportedForEachRankThatBecomesSlow) {
  SlowRank slow(0);
  EXPECT_EQ(play(slow, 100ms, 60ms, RankSet::of(2), 30s).size(), 1U);
  EXPECT_EQ(play(slow, 100ms, 60ms, RankSet::of(1), 30s, Instant{1h} + 30s).size(), 1U);
}

}  // namespace
}  // namespace atp
