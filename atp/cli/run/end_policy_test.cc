#include "atp/cli/run/end_policy.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

using Step = EndPolicy::Step;
using std::chrono::seconds;

constexpr Instant at(int second) { return Instant(seconds(second)); }

TEST(EndPolicy, ASuccessfulRankDoesNotEndTheJob) {
  EndPolicy policy(seconds(15));
  EXPECT_FALSE(policy.rank_ended(at(1), 0));
  EXPECT_EQ(policy.next(), kNever);
  EXPECT_EQ(policy.due(at(1000)), Step::kNone);
  EXPECT_EQ(policy.exit_code(), 0);
}

TEST(EndPolicy, TheFirstFailureSetsTheExitCodeAndStartsTheGracePeriod) {
  EndPolicy policy(seconds(15));
  EXPECT_TRUE(policy.rank_ended(at(1), 3));
  EXPECT_FALSE(policy.rank_ended(at(2), 4));
  EXPECT_EQ(policy.exit_code(), 3);
  EXPECT_EQ(policy.next(), at(16));
  EXPECT_EQ(policy.due(at(15)), Step::kNone);
  EXPECT_EQ(policy.due(at(16)), Step::kTerminate);
  EXPECT_EQ(policy.due(at(16)), Step::kNone);
  EXPECT_EQ(policy.next(), at(16) + EndPolicy::kTerminatePeriod);
  EXPECT_EQ(policy.due(at(21)), Step::kKill);
  EXPECT_EQ(policy.next(), kNever);
  EXPECT_EQ(policy.due(at(1000)), Step::kNone);
}

TEST(EndPolicy, ARequestToEndStartsTheGracePeriodOnce) {
  EndPolicy policy(seconds(10));
  policy.asked_to_end(at(1));
  policy.asked_to_end(at(5));
  EXPECT_EQ(policy.next(), at(11));
  EXPECT_TRUE(policy.rank_ended(at(6), 130));
  EXPECT_EQ(policy.next(), at(11));
  EXPECT_EQ(policy.exit_code(), 130);
}

TEST(EndPolicy, WithoutAGracePeriodRanksAreStoppedAtOnce) {
  EndPolicy policy(seconds(0));
  policy.rank_ended(at(1), 1);
  EXPECT_EQ(policy.due(at(1)), Step::kTerminate);
}

}  // namespace
}  // namespace atp
