#include "atp/core/server/float_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <limits>

#include "atp/wire/fixed_point.h"

namespace atp {
namespace {

constexpr std::uint16_t kValues = 3;

void add(FloatPool& pool, std::uint32_t slot, const std::array<float, kValues>& values) {
  std::array<std::uint8_t, 4 * kValues> wire{};
  write_floats(values, wire.data());
  pool.add(slot, wire.data());
}

std::array<float, kValues> rounded(const FloatPool& pool, std::uint32_t slot) {
  std::array<std::int32_t, kValues> bits{};
  pool.round(slot, bits);
  std::array<float, kValues> values{};
  for (std::size_t i = 0; i < kValues; ++i) values[i] = std::bit_cast<float>(bits[i]);
  return values;
}

TEST(FloatPool, SlotsAddValueByValueAndDoNotMix) {
  FloatPool pool(2, kValues, 4);
  const std::uint32_t a = pool.take().value();
  const std::uint32_t b = pool.take().value();
  add(pool, a, {1, 2, 3});
  add(pool, b, {10, 20, 30});
  add(pool, a, {0.5F, -2, std::numeric_limits<float>::infinity()});
  EXPECT_EQ(rounded(pool, a),
            (std::array<float, 3>{1.5F, 0, std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(rounded(pool, b), (std::array<float, 3>{10, 20, 30}));
}

TEST(FloatPool, ASlotGivenBackIsZeroAgainForTheNext) {
  FloatPool pool(1, kValues, 4);
  const std::uint32_t slot = pool.take().value();
  add(pool, slot, {1, 2, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_FALSE(pool.take().has_value());
  pool.give_back(slot);
  EXPECT_EQ(rounded(pool, pool.take().value()), (std::array<float, 3>{0, 0, 0}));
}

TEST(FloatPool, RequestsAreServedInTheirOrder) {
  FloatPool pool(1, kValues, 2);
  EXPECT_FALSE(pool.dequeue().has_value());
  for (std::uint64_t round = 0; round < 5; ++round) {
    pool.enqueue({0, round});
    pool.enqueue({1, round});
    EXPECT_EQ(pool.dequeue().value(), (FloatRequest{0, round}));
    EXPECT_EQ(pool.dequeue().value(), (FloatRequest{1, round}));
  }
  EXPECT_FALSE(pool.dequeue().has_value());
}

TEST(FloatPool, ARequestCanBeCancelledBeforeItsTurn) {
  FloatPool pool(1, kValues, 3);
  for (std::uint64_t sequence : {1, 2, 3}) pool.enqueue({0, sequence});
  pool.cancel({0, 2});
  pool.cancel({0, 7});
  EXPECT_EQ(pool.dequeue().value(), (FloatRequest{0, 1}));
  EXPECT_EQ(pool.dequeue().value(), (FloatRequest{0, 3}));
  EXPECT_FALSE(pool.dequeue().has_value());
}

}  // namespace
}  // namespace atp
