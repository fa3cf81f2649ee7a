#include "atp/cli/bench/pattern.h"

#include <gtest/gtest.h>

#include <cmath>

namespace atp {
namespace {

std::vector<float> sum_of(const BenchPattern& pattern, std::size_t world_size, std::size_t count) {
  std::vector<float> sum(count);
  std::vector<float> part(count);
  for (std::size_t rank = 0; rank < world_size; ++rank) {
    pattern.fill(rank, part);
    for (std::size_t i = 0; i < count; ++i) sum[i] += part[i];
  }
  return sum;
}

TEST(BenchPattern, AcceptsTheTrueSumAndNothingElse) {
  for (const std::size_t world_size : {1U, 4U, 1024U}) {
    const BenchPattern pattern(world_size, 7);
    std::vector<float> sum = sum_of(pattern, world_size, 1000);
    EXPECT_EQ(pattern.count_wrong(sum, false), 0U);
    sum[3] = std::nextafter(sum[3], 100.0F);
    sum[999] = -sum[999] + 1;
    EXPECT_EQ(pattern.count_wrong(sum, false), 2U);
  }
}

TEST(BenchPattern, AcceptsTheTrueAverage) {
  const BenchPattern pattern(3, 7);
  std::vector<float> sum = sum_of(pattern, 3, 1000);
  for (float& value : sum) value = static_cast<float>(static_cast<double>(value) / 3);
  EXPECT_EQ(pattern.count_wrong(sum, true), 0U);
  EXPECT_GT(pattern.count_wrong(sum, false), 900U);
}

TEST(BenchPattern, StaysWithinTheFixedScale) {
  for (const std::size_t world_size : {2U, 64U, 1024U}) {
    const BenchPattern pattern(world_size, 1);
    std::vector<float> part(10000);
    double largest = 0;
    for (std::size_t rank = 0; rank < world_size; rank += 1 + world_size / 4) {
      pattern.fill(rank, part);
      for (const float value : part) largest = std::max(largest, std::abs(double{value}));
    }
    EXPECT_LE(largest * 1e8 * static_cast<double>(world_size), 2147483647.0);
    EXPECT_GT(largest, 0);
  }
}

TEST(BenchPattern, DiffersBetweenIterations) {
  std::vector<float> first(100);
  std::vector<float> second(100);
  BenchPattern(2, 1).fill(0, first);
  BenchPattern(2, 2).fill(0, second);
  EXPECT_NE(first, second);
}

TEST(ExactGather, CarriesWholeNumbersThroughAFloatSum) {
  const std::uint64_t numbers[2] = {123456789012345, ~std::uint64_t{0}};
  for (const std::size_t world_size : {1U, 2U, 4U, 100U, 1024U}) {
    ExactGather sum(world_size, 2);
    double magnitude = 0;  // as the protocol adds it: the largest value of each rank
    for (std::size_t rank = 0; rank < world_size; ++rank) {
      ExactGather part(world_size, 2);
      part.put(rank, numbers);
      float largest = 0;
      for (std::size_t i = 0; i < part.values().size(); ++i) {
        sum.values()[i] += part.values()[i];
        largest = std::max(largest, part.values()[i]);
      }
      magnitude += largest * 1e8;
    }
    EXPECT_LE(magnitude, 2147483647.0);
    for (std::size_t rank = 0; rank < world_size; ++rank) {
      for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(sum.get(rank, i), numbers[i]);
    }
  }
}

}  // namespace
}  // namespace atp
