#include "atp/core/server/float_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <limits>

#include "atp/wire/packet.h"

namespace atp {
namespace {

constexpr std::uint16_t kValues = 3;

void add(FloatPool& pool, std::uint32_t slot, const std::array<float, kValues>& values) {
  std::array<std::uint8_t, 4 * kValues> wire{};
  for (std::size_t i = 0; i < kValues; ++i) {
    atp_store32(&wire[4 * i], std::bit_cast<std::uint32_t>(values[i]));
  }
  pool.add(slot, wire.data(), kValues);
}

std::array<float, kValues> rounded(const FloatPool& pool, std::uint32_t slot) {
  std::array<float, kValues> values{};
  pool.round(slot, reinterpret_cast<std::uint8_t*>(values.data()), kValues);
  return values;
}

FloatRequest taken(FloatPool& pool) {
  const FloatRequest request = pool.next().value();
  pool.dequeue();
  return request;
}

TEST(FloatPool, SlotsAddValueByValueAndDoNotInterfere) {
  FloatPool pool(2, 0, kValues, 4);
  const std::uint32_t a = pool.take(kValues).value();
  const std::uint32_t b = pool.take(kValues).value();
  add(pool, a, {1, 2, 3});
  add(pool, b, {10, 20, 30});
  add(pool, a, {0.5F, -2, std::numeric_limits<float>::infinity()});
  EXPECT_EQ(rounded(pool, a),
            (std::array<float, 3>{1.5F, 0, std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(rounded(pool, b), (std::array<float, 3>{10, 20, 30}));
}

TEST(FloatPool, ASlotGivenBackIsZeroAgainForTheNext) {
  FloatPool pool(1, 0, kValues, 4);
  const std::uint32_t slot = pool.take(kValues).value();
  add(pool, slot, {1, 2, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_FALSE(pool.take(kValues).has_value());
  pool.give_back(slot);
  EXPECT_EQ(rounded(pool, pool.take(kValues).value()), (std::array<float, 3>{0, 0, 0}));
}

// A server is a value: a copy made while a slot is taken behaves like the original.
TEST(FloatPool, ACopyTakesBackTheSlotsThatTheOriginalHandedOut) {
  FloatPool pool(2, 0, kValues, 4);
  const std::uint32_t slot = pool.take(kValues).value();
  const std::uint32_t other = pool.take(kValues).value();
  FloatPool copy = pool;
  for (FloatPool* each : {&pool, &copy}) {
    each->give_back(slot);
    each->give_back(other);
    EXPECT_EQ(each->take(kValues), other);
  }
  EXPECT_EQ(copy, pool);
}

TEST(FloatPool, AFewValuesTakeASmallSlotOrALargeOneIfThereIsNone) {
  constexpr std::uint16_t kMany = 2 * FloatPool::kSmallValues;
  FloatPool pool(1, 2, kMany, 4);
  const std::uint32_t first = pool.take(1).value();
  const std::uint32_t second = pool.take(FloatPool::kSmallValues).value();
  EXPECT_TRUE(pool.take(FloatPool::kSmallValues + 1).has_value()) << "the large one is untouched";
  EXPECT_FALSE(pool.take(1).has_value());
  pool.give_back(first);
  EXPECT_FALSE(pool.take(kMany).has_value()) << "the slot given back is small";
  pool.give_back(second);
  EXPECT_TRUE(pool.take(1).has_value());
}

TEST(FloatPool, RequestsAreServedInTheirOrder) {
  FloatPool pool(1, 0, kValues, 2);
  EXPECT_FALSE(pool.next().has_value());
  for (std::uint64_t round = 0; round < 5; ++round) {
    pool.enqueue({0, round});
    pool.enqueue({1, round});
    EXPECT_EQ(taken(pool), (FloatRequest{0, round}));
    EXPECT_EQ(taken(pool), (FloatRequest{1, round}));
  }
  EXPECT_FALSE(pool.next().has_value());
}

TEST(FloatPool, ARequestCanBeCancelledBeforeItsTurn) {
  FloatPool pool(1, 0, kValues, 3);
  for (std::uint64_t sequence : {1, 2, 3}) pool.enqueue({0, sequence});
  pool.cancel({0, 2});
  pool.cancel({0, 7});
  EXPECT_EQ(taken(pool), (FloatRequest{0, 1}));
  EXPECT_EQ(taken(pool), (FloatRequest{0, 3}));
  EXPECT_FALSE(pool.next().has_value());
}

}  // namespace
}  // namespace atp
