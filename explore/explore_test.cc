#include "explore/explore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "explore/testing_worlds.h"

namespace atp::explore {
namespace {

std::string text_of(const Violation& violation) {
  std::string text = violation.what;
  for (const std::string& line : violation.story) text += "\n" + line;
  return text;
}

class Worlds : public testing::TestWithParam<Plan> {};

TEST_P(Worlds, NothingGoesWrongInAnyOrderOfEvents) {
  const Plan& plan = GetParam();
  ExploreOptions options;
  options.most_states = 2 * plan.test_states;
  const Exploration found = explore(plan, options);
  std::printf("%s states%s, %s moves, %s drains of at most %u waits; %s states of nodes\n",
              with_commas(found.states).c_str(), found.complete ? ", which are all" : "",
              with_commas(found.moves).c_str(), with_commas(found.drains).c_str(), found.most_waits,
              with_commas(found.node_states).c_str());
  ASSERT_FALSE(found.violation) << text_of(*found.violation);
  EXPECT_GE(found.states, plan.test_states);
  EXPECT_GT(found.ends, 0U);
  EXPECT_EQ(found.drains, found.states * kDrainOrders.size());
}

INSTANTIATE_TEST_SUITE_P(Explore, Worlds, testing::ValuesIn(known_worlds()), test_name<Plan>);

TEST(Explore, TheTestsVisitAMillionStates) {
  std::size_t states = 0;
  for (const Plan& plan : known_worlds()) states += plan.test_states;
  EXPECT_GE(states, 1'000'000U);
}

}  // namespace
}  // namespace atp::explore
