#include "atp/wire/fixed_point.h"

#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <vector>

#include "atp/base/random.h"
#include "atp/wire/packet.h"

namespace atp {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Limits = std::numeric_limits<float>;

constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();

struct One {
  std::int32_t integer;
  std::uint32_t magnitude;
  bool overflow;
  bool operator==(const One&) const = default;
};

std::ostream& operator<<(std::ostream& out, const One& one) {
  return out << one.integer << " magnitude " << one.magnitude << " overflow " << one.overflow;
}

One quantize_one(float value, double scale) {
  std::uint8_t bytes[4];
  const Quantized result = quantize({&value, 1}, scale, bytes);
  return {static_cast<std::int32_t>(atp_load32(bytes)), result.magnitude, result.overflow};
}

TEST(Quantize, RoundsToNearestEvenAndSaturates) {
  struct Case {
    const char* name;
    float value;
    double scale;
    One expected;
  };
  constexpr float kInf = Limits::infinity();
  constexpr std::uint32_t kLowestMagnitude = 0x80000000;
  const Case cases[] = {
      {"zero", 0.0F, 1e8, {0, 0, false}},
      {"minus zero", -0.0F, 1e8, {0, 0, false}},
      {"one", 1.0F, 1e8, {100'000'000, 100'000'000, false}},
      {"minus one", -1.0F, 1e8, {-100'000'000, 100'000'000, false}},
      {"a tie goes to even, down", 0.5F, 1, {0, 0, false}},
      {"a tie goes to even, up", 1.5F, 1, {2, 2, false}},
      {"a tie goes to even, down again", 2.5F, 1, {2, 2, false}},
      {"a negative tie goes to even, up", -0.5F, 1, {0, 0, false}},
      {"a negative tie goes to even, down", -1.5F, 1, {-2, 2, false}},
      {"just above a tie", 0x1.000002p-1F, 1, {1, 1, false}},
      {"just below a tie", 0x1.fffffep-2F, 1, {0, 0, false}},
      {"the smallest denormal", Limits::denorm_min(), 1e8, {0, 0, false}},
      {"the smallest denormal at a huge scale", Limits::denorm_min(), 0x1p149, {1, 1, false}},
      {"the largest denormal", 0x1.fffffcp-127F, 0x1p149, {0x7fffff, 0x7fffff, false}},
      {"the largest float below the limit", 2147483520.0F, 1, {2147483520, 2147483520, false}},
      {"2^31", 2147483648.0F, 1, {kHighest, 0x7fffffff, true}},
      {"-2^31 is a value", -2147483648.0F, 1, {kLowest, kLowestMagnitude, false}},
      {"the first float below -2^31", -2147483904.0F, 1, {kLowest, kLowestMagnitude, true}},
      {"2^31 - 1 by the scale", 1.0F, 2147483647.0, {kHighest, 0x7fffffff, false}},
      {"a little above 2^31 - 1 rounds to it", 1.0F, 2147483647.25, {kHighest, 0x7fffffff, false}},
      {"halfway to 2^31 would round out", 1.0F, 2147483647.5, {kHighest, 0x7fffffff, true}},
      {"a little below -2^31 rounds to it",
       -1.0F,
       2147483648.25,
       {kLowest, kLowestMagnitude, false}},
      {"halfway below -2^31 is a tie to even",
       -1.0F,
       2147483648.5,
       {kLowest, kLowestMagnitude, false}},
      {"more than halfway below -2^31", -1.0F, 2147483648.75, {kLowest, kLowestMagnitude, true}},
      {"infinity", kInf, 1e8, {kHighest, 0x7fffffff, true}},
      {"minus infinity", -kInf, 1e8, {kLowest, kLowestMagnitude, true}},
      {"the largest float", Limits::max(), 1e8, {kHighest, 0x7fffffff, true}},
      {"the lowest float", Limits::lowest(), 1e8, {kLowest, kLowestMagnitude, true}},
  };
  for (const Case& c : cases) EXPECT_EQ(quantize_one(c.value, c.scale), c.expected) << c.name;
}

TEST(Quantize, EveryNanOverflows) {
  for (const std::uint32_t bits : {0x7fc00000U, 0xffc00000U, 0x7f800001U, 0x7fffffffU}) {
    EXPECT_TRUE(quantize_one(std::bit_cast<float>(bits), 1e8).overflow) << std::hex << bits;
  }
}

TEST(Quantize, AgreesWithTheDefinitionOnAnyBits) {
  Random random(1);
  for (int i = 0; i < 200'000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
    const double scale =
        random.chance(0.5) ? 1e8 : std::ldexp(1.0, static_cast<int>(random.below(60)) - 20);
    if (std::isnan(value)) continue;
    const double rounded = std::nearbyint(static_cast<double>(value) * scale);
    const One one = quantize_one(value, scale);
    const bool fits = rounded >= kLowest && rounded <= kHighest;
    ASSERT_EQ(one.overflow, !fits) << value << " · " << scale;
    const double expected = std::min<double>(std::max<double>(rounded, kLowest), kHighest);
    ASSERT_EQ(one.integer, static_cast<std::int32_t>(expected)) << value << " · " << scale;
    ASSERT_EQ(one.magnitude, std::abs(std::int64_t{one.integer}));
  }
}

TEST(Quantize, OneBadValueMarksTheFragmentAndTheMagnitudeIsTheLargest) {
  for (std::size_t count = 1; count <= 67; ++count) {
    for (std::size_t bad = 0; bad < count; ++bad) {
      std::vector<float> values(count, 1.0F);
      Bytes bytes(4 * count);
      values[bad] = -3.0F;
      EXPECT_EQ(quantize(values, 10, bytes.data()), (Quantized{30, false}));
      values[bad] = Limits::quiet_NaN();
      EXPECT_TRUE(quantize(values, 10, bytes.data()).overflow) << bad << " of " << count;
    }
  }
}

TEST(Quantize, NothingHasNoMagnitude) { EXPECT_EQ(quantize({}, 1e8, nullptr), Quantized{}); }

TEST(Quantize, WritesBigEndian) {
  const float values[] = {1.0F, -2.0F};
  std::uint8_t bytes[8];
  quantize(values, 1, bytes);
  EXPECT_EQ(Bytes(bytes, bytes + 8), (Bytes{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe}));
}

TEST(Dequantize, DividesInFloat64AndRoundsOnce) {
  struct Case {
    std::int32_t integer;
    double scale;
    double divisor;
    float expected;
  };
  const Case cases[] = {
      {0, 1e8, 1, 0.0F},
      {100'000'000, 1e8, 1, 1.0F},
      {-100'000'000, 1e8, 4, -0.25F},
      {kHighest, 1, 1, 2147483648.0F},  // float32 has no 2147483647
      {kLowest, 1, 1, -2147483648.0F},
      {16777217, 1, 1, 16777216.0F},  // a tie to even
      {16777219, 1, 1, 16777220.0F},
      {1, 3, 1, static_cast<float>(1.0 / 3.0)},
      {1, 1e300, 1, 0.0F},
      {kHighest, 1e-29, 1, static_cast<float>(2147483647.0 / 1e-29)},
      {kHighest, 1e-40, 1, Limits::infinity()},
      {kLowest, 1e-40, 1, -Limits::infinity()},
  };
  for (const Case& c : cases) {
    std::uint8_t bytes[4];
    atp_store32(bytes, static_cast<std::uint32_t>(c.integer));
    float out = -1;
    dequantize(bytes, c.scale, c.divisor, {&out, 1});
    EXPECT_EQ(out, c.expected) << c.integer << " / " << c.scale << " / " << c.divisor;
  }
}

TEST(Dequantize, GivesBackWhatAPowerOfTwoScaled) {
  Random random(2);
  std::vector<float> values(1001);
  for (float& value : values) {
    value = static_cast<float>(static_cast<std::int64_t>(random.below(1 << 24)) - (1 << 23)) / 1024;
  }
  Bytes bytes(4 * values.size() + 1);
  EXPECT_FALSE(quantize(values, 1024, bytes.data() + 1).overflow);
  std::vector<float> back(values.size());
  dequantize(bytes.data() + 1, 1024, 1, back);
  EXPECT_EQ(back, values);
}

}  // namespace
}  // namespace atp
