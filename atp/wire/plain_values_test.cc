#include "atp/wire/plain_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "atp/wire/lanes.h"

namespace atp {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
T reduced(DataType type, Reduction reduction, T a, T b) {
  const std::uint8_t kind = is_sum(reduction) ? ATP_KIND_SUM_PLAIN : ATP_KIND_MAX_PLAIN;
  std::uint8_t wire[4];
  std::uint8_t sum[4];
  write_plain(type, reduction, reinterpret_cast<const std::byte*>(&a), 1, wire);
  store_lanes(kind, sum, wire, 4);
  write_plain(type, reduction, reinterpret_cast<const std::byte*>(&b), 1, wire);
  combine_lanes(kind, sum, wire, 4);
  load_lanes(kind, sum, wire, 4);
  T result;
  read_plain(type, reduction, wire, 1, reinterpret_cast<std::byte*>(&result));
  return result;
}

TEST(PlainValues, TheMaximumOfKeysIsTheMaximumOfFloats) {
  const std::vector<float> all{-kInf, -3e38F, -1,   -1e-30F, -1e-45F, -0.0F,
                               0.0F,  1e-45F, 0.5F, 1,       3e38F,   kInf};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < all.size(); ++j) {
      const float max = reduced(DataType::kFloat32, Reduction::kMax, all[i], all[j]);
      const float min = reduced(DataType::kFloat32, Reduction::kMin, all[i], all[j]);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(max),
                std::bit_cast<std::uint32_t>(all[std::max(i, j)]));
      EXPECT_EQ(std::bit_cast<std::uint32_t>(min),
                std::bit_cast<std::uint32_t>(all[std::min(i, j)]));
    }
    for (const Reduction reduction : {Reduction::kMax, Reduction::kMin}) {
      for (const float nan : {kNan, -kNan}) {
        // Always the canonical NaN, so that all ranks and orders give the same bits.
        for (const float result : {reduced(DataType::kFloat32, reduction, all[i], nan),
                                   reduced(DataType::kFloat32, reduction, nan, all[i])}) {
          EXPECT_EQ(std::bit_cast<std::uint32_t>(result), 0x7fc00000U);
        }
      }
    }
  }
}

TEST(PlainValues, IntegersAddModulo2To32AndCompareSigned) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
  const std::vector<std::int32_t> all{kLeast, -5, -1, 0, 1, 1000, kMost};
  for (const std::int32_t a : all) {
    for (const std::int32_t b : all) {
      const auto sum = static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b);
      EXPECT_EQ(reduced(DataType::kInt32, Reduction::kSum, a, b), static_cast<std::int32_t>(sum));
      EXPECT_EQ(reduced(DataType::kInt32, Reduction::kMax, a, b), std::max(a, b));
      EXPECT_EQ(reduced(DataType::kInt32, Reduction::kMin, a, b), std::min(a, b));
    }
  }
}

TEST(PlainValues, SixteenBitTypesReduceTheSameWay) {
  const std::uint16_t minus_one = 0xbf80;  // bfloat16
  const std::uint16_t two = 0x4000;
  EXPECT_EQ(reduced(DataType::kBFloat16, Reduction::kMax, minus_one, two), two);
  EXPECT_EQ(reduced(DataType::kBFloat16, Reduction::kMin, minus_one, two), minus_one);
  EXPECT_EQ(reduced(DataType::kFloat16, Reduction::kMax, std::uint16_t{0x8001}, two), two);
}

}  // namespace
}  // namespace atp
