#include "atp/cli/bench/pattern.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "atp/wire/element.h"

namespace atp {
namespace {

constexpr DataType kFloats[] = {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16};

std::vector<std::byte> contribution(const BenchPattern& pattern, std::size_t rank, DataType type,
                                    std::size_t count) {
  std::vector<std::byte> part(count * bytes_of(type));
  pattern.fill(rank, part);
  return part;
}

float load(DataType type, const std::vector<std::byte>& values, std::size_t i) {
  return element::with_float(
      type, [&](auto of) { return decltype(of)::load(values.data() + bytes_of(type) * i); });
}

// Summed in double, which is exact here, divided, and rounded to the type.
std::vector<std::byte> true_result(const BenchPattern& pattern, DataType type,
                                   std::size_t world_size, std::size_t count, double divisor) {
  std::vector<double> sum(count);
  for (std::size_t rank = 0; rank < world_size; ++rank) {
    const auto part = contribution(pattern, rank, type, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += double{load(type, part, i)};
  }
  std::vector<std::byte> result(count * bytes_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    element::with_float(type, [&](auto of) {
      decltype(of)::store(result.data() + bytes_of(type) * i, static_cast<float>(sum[i] / divisor));
    });
  }
  return result;
}

TEST(BenchPattern, AcceptsTheTrueSumAndNothingElse) {
  for (const DataType type : kFloats) {
    for (const std::size_t world_size : {1U, 4U, 1024U}) {
      const BenchPattern pattern(world_size, 7, type);
      auto sum = true_result(pattern, type, world_size, 1000, 1);
      EXPECT_EQ(pattern.count_wrong(sum, false), 0U);
      sum[3 * bytes_of(type)] ^= std::byte{1};
      sum[999 * bytes_of(type)] ^= std::byte{2};
      EXPECT_EQ(pattern.count_wrong(sum, false), 2U);
    }
  }
}

TEST(BenchPattern, AcceptsTheTrueAverage) {
  for (const DataType type : kFloats) {
    const BenchPattern pattern(3, 7, type);
    const auto average = true_result(pattern, type, 3, 1000, 3);
    EXPECT_EQ(pattern.count_wrong(average, true), 0U);
    EXPECT_GT(pattern.count_wrong(average, false), 900U);
  }
}

TEST(BenchPattern, SumsIntegersModulo2To32) {
  const BenchPattern pattern(4, 7, DataType::kInt32);
  std::vector<std::uint32_t> sum(1000);
  bool wraps = false;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const auto part = contribution(pattern, rank, DataType::kInt32, sum.size());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      std::uint32_t value;
      std::memcpy(&value, part.data() + 4 * i, 4);
      wraps = wraps || sum[i] + value < sum[i];
      sum[i] += value;
    }
  }
  EXPECT_TRUE(wraps);
  EXPECT_EQ(pattern.count_wrong(std::as_bytes(std::span(sum)), false), 0U);
  ++sum[5];
  EXPECT_EQ(pattern.count_wrong(std::as_bytes(std::span(sum)), false), 1U);
}

TEST(BenchPattern, StaysWithinTheFixedScale) {
  for (const std::size_t world_size : {2U, 64U, 1024U}) {
    const BenchPattern pattern(world_size, 1);
    double largest = 0;
    for (std::size_t rank = 0; rank < world_size; rank += 1 + world_size / 4) {
      const auto part = contribution(pattern, rank, DataType::kFloat32, 10000);
      for (std::size_t i = 0; i < 10000; ++i) {
        largest = std::max(largest, std::abs(double{load(DataType::kFloat32, part, i)}));
      }
    }
    EXPECT_LE(largest * 1e8 * static_cast<double>(world_size), 2147483647.0);
    EXPECT_GT(largest, 0);
  }
}

TEST(BenchPattern, DiffersBetweenIterations) {
  EXPECT_NE(contribution(BenchPattern(2, 1), 0, DataType::kFloat32, 100),
            contribution(BenchPattern(2, 2), 0, DataType::kFloat32, 100));
}

TEST(NumberGather, CarriesWholeNumbersThroughASum) {
  const std::uint64_t numbers[2] = {123456789012345, ~std::uint64_t{0}};
  for (const std::size_t world_size : {1U, 4U, 1024U}) {
    NumberGather sum(world_size, 2);
    for (std::size_t rank = 0; rank < world_size; ++rank) {
      NumberGather part(world_size, 2);
      part.put(rank, numbers);
      for (std::size_t i = 0; i < part.words().size(); ++i) sum.words()[i] += part.words()[i];
    }
    for (std::size_t rank = 0; rank < world_size; ++rank) {
      for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(sum.get(rank, i), numbers[i]);
    }
  }
}

}  // namespace
}  // namespace atp
