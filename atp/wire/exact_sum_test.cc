#include "atp/wire/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "atp/base/random.h"
#include "atp/wire/values.h"

namespace atp {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kDenorm = std::numeric_limits<float>::denorm_min();

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

float sum_of(const std::vector<float>& values) {
  ExactSum sum;
  for (float v : values) sum.add(v);
  return sum.rounded();
}

struct Case {
  std::string name;
  std::vector<float> values;
  float expected;
};

TEST(ExactSum, RoundsTheTrueSumOnce) {
  const std::vector<Case> cases = {
      {"nothing is zero", {}, 0.0F},
      {"one value is itself", {3.25F}, 3.25F},
      {"negative zeros are zero", {-0.0F, -0.0F}, 0.0F},
      {"large values cancel and leave the small one", {1e30F, 1.0F, -1e30F}, 1.0F},
      {"cancelling across all of float32", {kMax, kDenorm, -kMax}, kDenorm},
      {"negative small one", {kMax, -kDenorm, -kMax}, -kDenorm},
      {"denormals add up", {kDenorm, kDenorm, kDenorm}, 3 * kDenorm},
      {"denormals become normal", {0x1p-127F, 0x1p-127F}, 0x1p-126F},
      {"a tie goes to the even one below", {0x1p24F, 1.0F}, 0x1p24F},
      {"a tie goes to the even one above", {0x1p24F, 2.0F, 1.0F}, 0x1p24F + 4.0F},
      {"a tie broken by the smallest value there is", {0x1p24F, 1.0F, kDenorm}, 0x1p24F + 2.0F},
      {"a tie broken downward", {0x1p24F, 2.0F, 1.0F, -kDenorm}, 0x1p24F + 2.0F},
      {"negative ties are even too", {-0x1p24F, -1.0F}, -0x1p24F},
      {"rounding may raise the exponent", {0x1.fffffep23F, 0.5F}, 0x1p24F},
      {"the largest value stays", {kMax}, kMax},
      {"overflow is infinity", {kMax, kMax}, kInf},
      {"negative overflow is minus infinity", {-kMax, -kMax}, -kInf},
      {"an intermediate overflow does not count", {kMax, kMax, -kMax}, kMax},
      {"less than half a unit above the largest stays", {kMax, 0x1.fffffep102F}, kMax},
      {"half a unit above the largest is infinity", {kMax, 0x1p103F}, kInf},
      {"infinity wins over finite values", {kInf, -kMax, 1.0F}, kInf},
      {"minus infinity too", {-kInf, kMax}, -kInf},
  };
  for (const Case& c : cases) EXPECT_EQ(bits(sum_of(c.values)), bits(c.expected)) << c.name;
}

TEST(ExactSum, NanAndOpposedInfinitiesMakeNan) {
  EXPECT_TRUE(std::isnan(sum_of({kNan})));
  EXPECT_TRUE(std::isnan(sum_of({1.0F, kNan, kInf})));
  EXPECT_TRUE(std::isnan(sum_of({std::bit_cast<float>(0xff800001U)}))) << "a signalling one";
  EXPECT_TRUE(std::isnan(sum_of({kInf, -kInf})));
}

// Golden values from Python's fractions: sum(Fraction(x) for x in values), rounded to float32.
TEST(ExactSum, AgreesWithRationalArithmetic) {
  struct Golden {
    std::vector<std::uint32_t> values;
    std::uint32_t expected;
  };
  const std::vector<Golden> golden = {
      {{0xfb4b2f6dU, 0x7666e634U, 0x7b509fffU, 0xfc97d48aU, 0x74a6d5daU, 0x7544f3e8U, 0x7b4b2f6eU},
       0xfc7b6e44U},
      {{0xfd4ecac2U, 0x7d4fc2acU}, 0x7977ea00U},
      {{0x00709595U, 0x8003d9bfU}, 0x006cbbd6U},
      {{0xfd99004aU, 0x7451f514U, 0x57809687U, 0x3cd3d08aU, 0x55ffb332U, 0xf8f74176U, 0x7d990049U},
       0xf8f6dc7bU},
      {{0x3e41a634U, 0x3688fd15U}, 0x3e41a746U},
      {{0x73888dc5U, 0xf357aab8U}, 0x7265c348U},
      {{0x00b00f2dU, 0x03895952U, 0x80b00f2fU}, 0x03895952U},
      {{0x332a922aU, 0xb2347c8cU, 0xbe0f1a59U}, 0xbe0f1a57U},
      {{0x00bb8326U, 0x01574e50U, 0x00c12280U}, 0x01cad092U},
      {{0x528ee9bbU, 0x337eba08U, 0x1ba288a4U, 0xd28ee9b8U}, 0x47c00000U},
      {{0x017f778bU, 0x00fea170U, 0x01388470U, 0x0262e77eU}, 0x02b85d55U},
      {{0x3b0b88f5U, 0xccd17bb2U, 0x514cf6deU, 0x614fa296U}, 0x614fa296U},
      {{0xeb115fdcU, 0x6f1766e6U, 0x50a7c8aaU, 0x74e8adbbU, 0x4edcd99cU, 0x18dea575U, 0x6b115fdeU},
       0x74e8c0a8U},
      {{0x7cb5f24fU, 0x738df542U, 0xf3fb3925U}, 0x7cb5f234U},
      {{0x21696f96U, 0xf43ed912U, 0xa6167499U, 0xf77d142dU}, 0xf78007c9U},
      {{0x8453a623U, 0x011b2feeU, 0x0453a620U}, 0x011b2f2eU},
      {{0x00b90ce0U, 0x0005f6edU, 0x002f345bU}, 0x00ee3828U},
      {{0x8239a4edU, 0x855dcfd5U, 0x8b4acef0U}, 0x8b4adcfbU},
      {{0x80adc1a4U, 0x80844b19U, 0x80516e7eU, 0x00adc1a4U}, 0x80d5b997U},
      {{0x057feaf3U, 0x0139fee0U, 0x08de5632U, 0x80f7d705U, 0x8bda1288U, 0x827b5003U}, 0x8bd6914dU},
      {{0xb289f111U, 0xb2e53027U, 0xb23ffd90U, 0xb254c51bU}, 0xb38e60a3U},
      {{0x730b9a5eU, 0xf320ec09U, 0xf3aa4259U, 0xf3de15baU, 0x73bb3734U, 0xf36006e3U, 0xf30b9a5cU},
       0xf446cd2aU},
      {{0x329d77e7U, 0x3263d546U}, 0x3307b145U},
      {{0x3292550bU, 0xb215b5afU, 0xb2f7141eU, 0x32f2241bU, 0x3233cf15U, 0x32d12c95U}, 0x3336cf28U},
  };
  for (const Golden& g : golden) {
    ExactSum sum;
    for (std::uint32_t v : g.values) sum.add(std::bit_cast<float>(v));
    EXPECT_EQ(bits(sum.rounded()), g.expected);
  }
}

TEST(ExactSum, AnyOrderGivesTheSameBits) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> values;
    while (values.size() < 1024) {
      const auto v = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
      if (std::isfinite(v)) values.push_back(v);
    }
    const std::uint32_t first = bits(sum_of(values));
    for (std::size_t i = values.size() - 1; i > 0; --i) {
      std::swap(values[i], values[random.below(i + 1)]);
    }
    ASSERT_EQ(bits(sum_of(values)), first);
  }
}

TEST(ExactSum, HoldsAThousandOfTheLargest) {
  ExactSum sum;
  for (int i = 0; i < 1024; ++i) sum.add(kMax);
  EXPECT_EQ(sum.rounded(), kInf);
  for (int i = 0; i < 1023; ++i) sum.add(-kMax);
  EXPECT_EQ(sum.rounded(), kMax);
  for (int i = 0; i < 1025; ++i) sum.add(-kMax);
  EXPECT_EQ(sum.rounded(), -kInf);
}

// Draws a value whose magnitude lies within `powers` powers of two. If these are few, float64 holds
// the sums exactly.
float drawn(Random& random, int powers) {
  const std::uint64_t kind = random.below(100);
  if (kind == 0) return std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
  if (kind == 1) return kInf;
  if (kind == 2) return -0.0F;
  const auto exponent = static_cast<std::uint32_t>(1 + random.below(powers)) << 23;
  return std::bit_cast<float>(exponent | (static_cast<std::uint32_t>(random.next()) & 0x807fffffU));
}

TEST(ExactSums, ManyColumnsHaveTheSameBitsAsEachAlone) {
  Random random(11);
  for (const std::size_t ranks : {1U, 2U, 3U, 8U, 64U}) {
    for (const std::size_t count : {0U, 1U, 255U, 256U, 257U, 1000U}) {
      for (const int powers : {1, 12, 30, 254}) {
        std::vector<std::vector<std::uint8_t>> rows(ranks, std::vector<std::uint8_t>(4 * count));
        std::vector<ExactSum> sums(count);
        for (auto& row : rows) {
          for (std::size_t i = 0; i < count; ++i) {
            const float value = drawn(random, powers);
            sums[i].add(value);
            store_value(row.data() + 4 * i, bits(value));
          }
        }
        std::vector<const std::uint8_t*> at;
        for (const auto& row : rows) at.push_back(row.data());
        exact_sums(at, count, rows[0].data());  // overwrites one of them
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(load_value(rows[0].data() + 4 * i), bits(sums[i].rounded()))
              << ranks << " values up to " << powers << " powers of two apart";
        }
      }
    }
  }
}

// Splits the values among hosts and adds the hosts' parts as integers.
float sum_of_parts(const std::vector<float>& values, std::size_t hosts) {
  std::vector<ExactSum> sums(hosts);
  for (std::size_t i = 0; i < values.size(); ++i) sums[i % hosts].add(values[i]);
  std::vector<std::uint32_t> total(ExactSum::kParts);
  for (const ExactSum& sum : sums) {
    std::vector<std::int32_t> parts(ExactSum::kParts);
    sum.write_parts(parts.data());
    for (std::size_t i = 0; i < parts.size(); ++i) total[i] += static_cast<std::uint32_t>(parts[i]);
  }
  const std::vector<std::int32_t> added(total.begin(), total.end());
  return ExactSum::of_parts(added.data()).rounded();
}

TEST(ExactSum, HasPartsThatAddUpToIt) {
  Random random(11);
  std::vector<std::vector<float>> cases = {
      {},
      {kDenorm},
      {-kDenorm},
      {-kDenorm, -kDenorm, kDenorm},
      {kMax, -kDenorm},
      {-kMax, -kMax, kMax, kDenorm},
      {kInf, -kMax, 1},
      {-kInf, kMax},
      {kInf, -kInf, 1},
      {kNan, 1, 2},
      {0.0F, -0.0F},
      std::vector<float>(1024, kMax),
      std::vector<float>(1024, -kMax),
      std::vector<float>(1024, kInf),
      std::vector<float>(1024, -kInf),
      std::vector<float>(1024, kNan),
      std::vector<float>(1024, -kDenorm),
  };
  for (int i = 0; i < 300; ++i) {
    std::vector<float> values(1 + random.below(60));
    for (float& value : values) {
      value = std::ldexp(static_cast<float>(2 * random.uniform() - 1),
                         static_cast<int>(random.below(277)) - 149);
    }
    cases.push_back(values);
  }
  for (const std::vector<float>& values : cases) {
    for (const std::size_t hosts : {1U, 2U, 3U, 1024U}) {
      EXPECT_EQ(bits(sum_of_parts(values, hosts)), bits(sum_of(values)))
          << hosts << " hosts, " << values.size() << " values";
    }
  }
}

}  // namespace
}  // namespace atp
