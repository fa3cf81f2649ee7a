#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "atp/sim/clock.h"
#include "atp/sim/reference_sum.h"

// Tests the oracle itself on cases that can be checked by hand.

namespace atp::sim {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kMin = std::numeric_limits<float>::denorm_min();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct SumCase {
  const char* name;
  std::vector<float> values;
  float sum;
};

class ExactSum : public testing::TestWithParam<SumCase> {};

TEST_P(ExactSum, IsRoundedOnce) {
  const float sum = reference_sum(GetParam().values);
  if (std::isnan(GetParam().sum)) {
    EXPECT_TRUE(std::isnan(sum));
  } else {
    EXPECT_EQ(sum, GetParam().sum);
  }
}

const SumCase kSums[] = {
    {"nothing_is_zero", {}, 0},
    {"small_integers_add", {1, 2, -4}, -1},
    {"a_small_value_survives_two_large_ones_that_cancel", {1e30F, 1, -1e30F}, 1},
    {"the_smallest_denormals_add", {kMin, kMin, kMin}, 3 * kMin},
    {"a_denormal_survives_the_largest_floats", {kMax, kMin, -kMax}, kMin},
    {"a_tie_goes_to_even_downward", {0x1p24F, 1}, 0x1p24F},
    {"a_tie_goes_to_even_upward", {0x1p24F + 2, 1}, 0x1p24F + 4},
    {"a_tie_is_broken_by_the_smallest_bit", {0x1p24F, 1, kMin}, 0x1p24F + 2},
    {"a_sum_beyond_float32_is_infinite", {kMax, kMax}, kInfinity},
    {"an_overflow_on_the_way_does_not_matter", {kMax, kMax, -kMax}, kMax},
    {"infinity_stays", {kInfinity, -1}, kInfinity},
    {"infinities_of_both_signs_give_NaN", {kInfinity, -kInfinity}, kNaN},
    {"NaN_stays", {1, kNaN}, kNaN},
};
INSTANTIATE_TEST_SUITE_P(Oracle, ExactSum, testing::ValuesIn(kSums),
                         [](const auto& instance) { return instance.param.name; });

TEST(EventQueue, KeepsTheOrderOfEventsAtOneInstant) {
  EventQueue<int> queue;
  queue.push(5, 1);
  queue.push(3, 2);
  queue.push(5, 3);
  queue.push(3, 4);
  std::vector<int> order;
  for (; !queue.empty(); queue.pop()) order.push_back(queue.first().event);
  EXPECT_EQ(order, (std::vector<int>{2, 4, 1, 3}));
}

TEST(EventQueue, PutsAReplacementInItsPlace) {
  EventQueue<int> queue;
  for (const int when : {1, 9, 4, 7, 2, 8}) queue.push(when, when);
  queue.replace_first({.when = 6, .number = 100, .event = 6});
  std::vector<int> order;
  for (; !queue.empty(); queue.pop()) order.push_back(queue.first().event);
  EXPECT_EQ(order, (std::vector<int>{2, 4, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace atp::sim
