#include "atp/core/worker/scale_history.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace atp {
namespace {

constexpr double kFirst = 0x1p20;
constexpr double kSmall = 0x1p14;  // room for 15 doublings
const OperationSpec kBucket{.count = 1000};

// The scale after operations of one kind with these magnitudes.
double scale_after(const std::vector<double>& magnitudes) {
  ScaleHistory history(kFirst);
  for (const double magnitude : magnitudes) {
    history.complete(history.submit(kBucket), magnitude);
  }
  return *history.scale_of(history.submit(kBucket));
}

std::vector<double> repeated(std::size_t times, double magnitude) {
  return std::vector<double>(times, magnitude);
}

std::vector<double> operator+(std::vector<double> a, const std::vector<double>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(ScaleHistory, AimsAtAQuarterOfTheRange) {
  const struct {
    std::string what;
    std::vector<double> magnitudes;
    double scale;
  } cases[] = {
      {"nothing yet", {}, 0x1p20},
      {"zeros say nothing", {0, 0}, 0x1p20},
      {"the first result sets it freely upwards", {1}, 0x1p49},
      {"and downwards", {0x1p30}, 0x1p19},
      {"the first that is not zero does", {0, 0, 1}, 0x1p49},
      {"a result on the target leaves it", {0x1p29, 0x1p29}, 0x1p20},
      {"a little more than the target halves it", {0x1p29, 0x1p29 + 1}, 0x1p19},
      {"a little less than half of it leaves room", {0x1p29, 0x1p28 - 1}, 0x1p20},
      {"it falls at once, as far as need be", {0x1p29, 0x1p33}, 0x1p16},
      {"it rises only after eight", repeated(1, 0x1p29) + repeated(7, kSmall), 0x1p20},
      {"by one power of two", repeated(1, 0x1p29) + repeated(8, kSmall), 0x1p21},
      {"and again after eight more", repeated(1, 0x1p29) + repeated(16, kSmall), 0x1p22},
      {"a large one among them starts the row again",
       repeated(1, 0x1p29) + repeated(7, kSmall) + repeated(1, 0x1p29) + repeated(7, kSmall),
       0x1p20},
      {"zeros don't count in it", repeated(1, 0x1p29) + repeated(7, kSmall) + repeated(9, 0),
       0x1p20},
      {"at once where hardly a digit was left", {0x1p29, kSmall / 2}, 0x1p36},
      {"as often as that is so", {0x1p29, 1, 3}, 0x1p76},
      {"it stays within what float32 can need", {0x1p300}, 0x1p-128},
      {"on both sides", {0x1p-300}, 0x1p178},
  };
  for (const auto& c : cases) EXPECT_EQ(scale_after(c.magnitudes), c.scale) << c.what;
}

TEST(ScaleHistory, ANextOfAKindWaitsForTheOneBefore) {
  ScaleHistory history(kFirst);
  const auto first = history.submit(kBucket);
  const auto second = history.submit(kBucket);
  EXPECT_EQ(history.scale_of(first), kFirst);
  EXPECT_EQ(history.scale_of(second), std::nullopt);
  history.complete(first, 0x1p28);
  EXPECT_EQ(history.scale_of(second), 0x1p21);
}

TEST(ScaleHistory, KindsAreApart) {
  const struct {
    std::string what;
    OperationSpec spec;
    bool apart;
  } cases[] = {
      {"the same", {.count = 1000}, false},
      {"another length", {.count = 1001}, true},
      {"another reduction", {.count = 1000, .reduction = Reduction::kAverage}, true},
      {"another tag", {.count = 1000, .tag = 1}, true},
      {"another time-out", {.count = 1000, .timeout = std::chrono::seconds(1)}, false},
  };
  for (const auto& c : cases) {
    ScaleHistory history(kFirst);
    history.submit(kBucket);
    EXPECT_EQ(history.scale_of(history.submit(c.spec)).has_value(), c.apart) << c.what;
  }
}

TEST(ScaleHistory, MoreKindsThanItHoldsShare) {
  ScaleHistory history(kFirst);
  for (std::uint32_t tag = 0; tag < 2 * ScaleHistory::kKindsMax; ++tag) {
    const auto turn = history.submit({.count = 1, .tag = tag});
    EXPECT_TRUE(history.scale_of(turn).has_value()) << tag;
    history.complete(turn, 0x1p29);
  }
  EXPECT_FALSE(history.submit({.count = 1, .tag = 0}) == history.submit({.count = 1, .tag = 1}));
}

}  // namespace
}  // namespace atp
