#include "atp/cli/node/drain.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Drain, SaysHowManyJobsAreLeftWheneverThatChanges) {
  Drain drain;
  Instant now{};
  EXPECT_EQ(drain.look(now, 2), "draining, 2 jobs left: new jobs are refused");
  EXPECT_EQ(drain.look(now += seconds(1), 2), std::nullopt);
  EXPECT_EQ(drain.look(now += seconds(1), 1), "draining, 1 job left");
  EXPECT_EQ(drain.look(now += seconds(1), 0), "draining, no jobs left");
  EXPECT_EQ(Drain().look(now, 0), "draining, no jobs left: new jobs are refused");
}

TEST(Drain, IsOverWhenThereHasBeenNoJobForASecond) {
  Drain drain;
  Instant now{};
  drain.look(now, 1);
  EXPECT_FALSE(drain.is_over(now + seconds(100)));
  drain.look(now += seconds(5), 0);
  drain.look(now + milliseconds(500), 0);
  EXPECT_FALSE(drain.is_over(now + milliseconds(999)));
  EXPECT_TRUE(drain.is_over(now + seconds(1)));
}

// A further range of streams of a job that the node knows, for example.
TEST(Drain, StartsOverWhenAJobComesBack) {
  Drain drain;
  Instant now{};
  drain.look(now, 0);
  drain.look(now += milliseconds(900), 1);
  EXPECT_FALSE(drain.is_over(now + seconds(10)));
  drain.look(now += seconds(10), 0);
  EXPECT_FALSE(drain.is_over(now + milliseconds(900)));
  EXPECT_TRUE(drain.is_over(now + seconds(1)));
}

}  // namespace
}  // namespace atp
