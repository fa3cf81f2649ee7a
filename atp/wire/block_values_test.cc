#include "atp/wire/block_values.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "atp/base/random.h"
#include "atp/wire/element.h"
#include "atp/wire/values.h"

namespace atp {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

using Floats = std::vector<float>;

const std::byte* bytes(const Floats& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

std::int16_t exponent_of(const Floats& values) {
  return block_exponent(DataType::kFloat32, bytes(values), values.size());
}

TEST(BlockExponent, IsThatOfTheLargestAbsoluteValue) {
  const struct {
    Floats values;
    int exponent;
  } cases[] = {
      {{1}, 0},
      {{-1.999F, 0.1F}, 0},
      {{2}, 1},
      {{0.5F, -0.25F}, -1},
      {{std::numeric_limits<float>::max()}, 127},
      {{std::numeric_limits<float>::min()}, -126},
      {{0x1.8p-127F}, -127},
      {{-kDenormal, 0}, -149},
      {{3 * kDenormal}, -148},
      {{0, -0.0F}, kZeroBlock},
      {{1, kInf}, kSpecialBlock},
      {{-kInf}, kSpecialBlock},
      {{kNan, 1e38F}, kSpecialBlock},
  };
  for (const auto& c : cases) EXPECT_EQ(exponent_of(c.values), c.exponent) << c.values[0];
}

// The sum of W equal contributions, each as large as its block's exponent allows, fits; one power
// of two less for c would not.
TEST(BlockUnit, TheLargestSumFits) {
  for (const std::size_t ranks : {1U, 2U, 3U, 4U, 7U, 8U, 64U, 65U, 1000U, 1024U}) {
    for (const int exponent : {-149, -140, -126, -100, 0, 50, 127}) {
      const float largest = std::ldexp(2 - 0x1p-23F, exponent);
      for (const auto format : {NumberFormat::kBlocks, NumberFormat::kBlocksInt16}) {
        if (format == NumberFormat::kBlocksInt16 && ranks > kMaxRanksOfInt16) continue;
        const BlockUnit unit(static_cast<std::int16_t>(exponent), ranks, format);
        std::uint8_t wire[4] = {};
        quantize(DataType::kFloat32, bytes({largest}), 1, unit, format, wire);
        const std::int64_t q = format == NumberFormat::kBlocks
                                   ? static_cast<std::int32_t>(load_value(wire))
                                   : static_cast<std::int16_t>(load_value16(wire));
        const std::int64_t most = format == NumberFormat::kBlocks ? 1 << 30 : 32767;
        EXPECT_LE(q * static_cast<std::int64_t>(ranks), most) << ranks << " ranks, 2^" << exponent;
        if (exponent < -100) continue;  // the unit is at its floor
        EXPECT_GT(4 * q * static_cast<std::int64_t>(ranks), most - 4 * 64) << "no bit is wasted";
      }
    }
  }
}

TEST(BlockUnit, IsNeverBelowTheSmallestFloat) {
  EXPECT_EQ(BlockUnit(-149, 1, NumberFormat::kBlocks).unit(), kDenormal);
  EXPECT_EQ(BlockUnit(-120, 4, NumberFormat::kBlocks).unit(), 0x1p-147F);
  EXPECT_EQ(BlockUnit(127, 1024, NumberFormat::kBlocks).unit(), 0x1p108F);
}

TEST(Quantize, RoundsToNearestEvenAndBackWithoutLoss) {
  // A unit of 1: 2^(29 + 1 + 0 - 30).
  const BlockUnit one(29, 1, NumberFormat::kBlocks);
  const Floats values{0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 0.49999997F, 0x1p29F, -7};
  const std::int32_t expected[] = {0, 2, 2, 0, -2, 0, 1 << 29, -7};
  std::vector<std::uint8_t> wire(4 * values.size());
  quantize(DataType::kFloat32, bytes(values), values.size(), one, NumberFormat::kBlocks,
           wire.data());
  Floats back(values.size());
  dequantize(wire.data(), values.size(), one, NumberFormat::kBlocks, 1, DataType::kFloat32,
             reinterpret_cast<std::byte*>(back.data()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(static_cast<std::int32_t>(load_value(&wire[4 * i])), expected[i]) << values[i];
    EXPECT_EQ(back[i], static_cast<float>(expected[i])) << values[i];
    EXPECT_FALSE(std::signbit(back[i]) && back[i] == 0) << "zero is +0";
  }
}

// Blocks next to a special block have the same bits as anywhere else.
TEST(RoundToUnits, GivesTheFloatsThatTheIntegersStandFor) {
  Random random(5);
  for (const int exponent : {-149, -126, -30, 0, 127}) {
    for (const auto format : {NumberFormat::kBlocks, NumberFormat::kBlocksInt16}) {
      const BlockUnit unit(static_cast<std::int16_t>(exponent), 6, format);
      Floats values(300);
      for (float& value : values) {
        value = std::ldexp(static_cast<float>(2 * random.uniform() - 1), exponent + 1);
      }
      const std::size_t lane = format == NumberFormat::kBlocks ? 4 : 2;
      std::vector<std::uint8_t> integers(lane * values.size());
      std::vector<std::uint8_t> floats(4 * values.size());
      quantize(DataType::kFloat32, bytes(values), values.size(), unit, format, integers.data());
      round_to_units(DataType::kFloat32, bytes(values), values.size(), unit, floats.data());
      Floats of_integers(values.size());
      Floats of_floats(values.size());
      dequantize(integers.data(), values.size(), unit, format, 1, DataType::kFloat32,
                 reinterpret_cast<std::byte*>(of_integers.data()));
      read_floats(floats.data(), values.size(), 1, DataType::kFloat32,
                  reinterpret_cast<std::byte*>(of_floats.data()));
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(of_integers[i], of_floats[i]) << values[i];
      }
    }
  }
}

TEST(Quantize, AForgedExponentSaturatesAndStaysDefined) {
  const BlockUnit small(-149, 4, NumberFormat::kBlocks);
  std::uint8_t wire[12];
  quantize(DataType::kFloat32, bytes({3e38F, -3e38F, kNan}), 3, small, NumberFormat::kBlocks, wire);
  EXPECT_EQ(load_value(wire), 1U << 30);
  EXPECT_EQ(static_cast<std::int32_t>(load_value(wire + 4)), -(1 << 30));
}

TEST(Dequantize, AnAverageDividesTheRoundedSum) {
  const BlockUnit unit(20, 3, NumberFormat::kBlocks);
  std::uint8_t wire[4];
  store_value(wire, static_cast<std::uint32_t>((1 << 29) + 1));
  float result = 0;
  dequantize(wire, 1, unit, NumberFormat::kBlocks, 3, DataType::kFloat32,
             reinterpret_cast<std::byte*>(&result));
  EXPECT_EQ(result, static_cast<float>((1 << 29) + 1) * unit.unit() / 3.0F);
}

TEST(Floats, PassBitByBitAndSurviveAnAverage) {
  const Floats values{0, -0.0F, kDenormal, 1, 3e38F, kInf, -kInf};
  std::vector<std::uint8_t> wire(4 * values.size());
  write_floats(DataType::kFloat32, bytes(values), values.size(), wire.data());
  Floats back(values.size());
  const auto read = [&](float divisor) {
    read_floats(wire.data(), values.size(), divisor, DataType::kFloat32,
                reinterpret_cast<std::byte*>(back.data()));
  };
  read(1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(load_value(&wire[4 * i]), std::bit_cast<std::uint32_t>(values[i]));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(back[i]), std::bit_cast<std::uint32_t>(values[i]));
  }
  read(3);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(back[i], values[i] / 3.0F);
}

// Every 16-bit number, and the midpoint between each two neighbours.
template <class Element>
void expect_nearest(double (*decoded)(std::uint16_t), std::uint16_t infinity) {
  for (unsigned bits = 0; bits + 1 <= infinity; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const float value = Element::load(reinterpret_cast<const std::byte*>(&low));
    EXPECT_EQ(static_cast<double>(value), decoded(low)) << bits;
    std::uint16_t stored = 0;
    const auto store = [&](float x) {
      Element::store(reinterpret_cast<std::byte*>(&stored), x);
      return stored;
    };
    EXPECT_EQ(store(value), low);
    EXPECT_EQ(store(-value), low | 0x8000);
    if (high == infinity) break;
    const auto middle = static_cast<float>((decoded(low) + decoded(high)) / 2);
    EXPECT_EQ(store(middle), (bits & 1) != 0 ? high : low) << "a tie goes to even: " << bits;
    EXPECT_EQ(store(std::nextafter(middle, kInf)), high) << bits;
    EXPECT_EQ(store(std::nextafter(middle, 0.0F)), low) << bits;
  }
  std::uint16_t stored = 0;
  Element::store(reinterpret_cast<std::byte*>(&stored), kInf);
  EXPECT_EQ(stored, infinity);
  Element::store(reinterpret_cast<std::byte*>(&stored), std::numeric_limits<float>::max());
  EXPECT_EQ(stored, infinity);
  Element::store(reinterpret_cast<std::byte*>(&stored), kNan);
  EXPECT_GT(stored & 0x7fff, infinity);
  EXPECT_TRUE(std::isnan(Element::load(reinterpret_cast<const std::byte*>(&stored))));
}

TEST(Element, Bfloat16IsTheUpperHalfOfAFloat32) {
  expect_nearest<element::BFloat16>(
      [](std::uint16_t bits) {
        return static_cast<double>(std::bit_cast<float>(std::uint32_t{bits} << 16));
      },
      0x7f80);
}

TEST(Element, Float16FollowsIeee754) {
  expect_nearest<element::Float16>(
      [](std::uint16_t bits) {
        const int exponent = bits >> 10;
        const double fraction = bits & 0x3ff;
        return exponent == 0 ? std::ldexp(fraction, -24)
                             : std::ldexp(1024 + fraction, exponent - 25);
      },
      0x7c00);
}

TEST(BlockValues, NoLoopWritesBeyondItsLastValue) {
  constexpr std::size_t kCount = 3;
  constexpr std::size_t kRoom = 64;
  const std::vector<std::byte> tensor(kRoom);
  const std::vector<std::uint8_t> packet(kRoom);
  const BlockUnit unit(0, 4, NumberFormat::kBlocks);
  std::vector<std::byte> out(kRoom);
  auto* at = reinterpret_cast<std::uint8_t*>(out.data());
  constexpr auto kType = DataType::kFloat32;
  struct Loop {
    const char* name;
    std::size_t bytes;  // of a value
    std::function<void()> run;
  };
  const Loop loops[] = {
      {"quantize, int32", 4,
       [&] { quantize(kType, tensor.data(), kCount, unit, NumberFormat::kBlocks, at); }},
      {"quantize, int16", 2,
       [&] { quantize(kType, tensor.data(), kCount, unit, NumberFormat::kBlocksInt16, at); }},
      {"round_to_units", 4, [&] { round_to_units(kType, tensor.data(), kCount, unit, at); }},
      {"dequantize a sum", 4,
       [&] {
         dequantize(packet.data(), kCount, unit, NumberFormat::kBlocks, 1, kType, out.data());
       }},
      {"dequantize an average", 4,
       [&] {
         dequantize(packet.data(), kCount, unit, NumberFormat::kBlocks, 3, kType, out.data());
       }},
      {"write_classes", 2, [&] { write_classes(kType, tensor.data(), kCount, at); }},
      {"read_classes", 4, [&] { read_classes(packet.data(), kCount, kType, out.data()); }},
      {"write_floats", 4, [&] { write_floats(kType, tensor.data(), kCount, at); }},
      {"read_floats", 4, [&] { read_floats(packet.data(), kCount, 1, kType, out.data()); }},
  };
  for (const Loop& loop : loops) {
    std::fill(out.begin(), out.end(), std::byte{0xab});
    loop.run();
    const auto written = kCount * loop.bytes;
    EXPECT_NE(out[written - 1], std::byte{0xab}) << loop.name;
    EXPECT_EQ(out[written], std::byte{0xab}) << loop.name;
  }
}

}  // namespace
}  // namespace atp
