#include "explore/planted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "explore/explore.h"
#include "explore/testing_worlds.h"

namespace atp::explore {
namespace {

class Planted : public testing::TestWithParam<Bug> {};

TEST_P(Planted, IsFoundAndReportedMoveByMove) {
  const Bug& bug = GetParam();
  const Plan* plan = find_world(bug.world);
  ASSERT_NE(plan, nullptr);
  ExploreOptions options;
  options.most_states = 200'000;
  const Exploration found = explore(*plan, options, &bug);
  ASSERT_TRUE(found.violation) << bug.about << ": not found in " << found.states << " states";
  std::printf("%s: %s, after %zu moves and %s states\n", bug.about, found.violation->what.c_str(),
              found.violation->story.size(), with_commas(found.states).c_str());
  for (const std::string& line : found.violation->story) std::printf("%s\n", line.c_str());
  EXPECT_THAT(found.violation->story, testing::Not(testing::IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Explore, Planted,
                         testing::ValuesIn(planted_bugs().begin(), planted_bugs().end()),
                         test_name<Bug>);

}  // namespace
}  // namespace atp::explore
