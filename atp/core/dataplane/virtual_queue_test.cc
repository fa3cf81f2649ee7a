#include <gtest/gtest.h>

#include <chrono>

#include "atp/core/dataplane/switch_state.h"

namespace atp {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart{1h};
constexpr std::size_t kBytes = 1250 - 66;  // with its headers 10 µs on a link of 1 Gbit/s

TEST(VirtualQueue, MarksPacketsThatWouldWaitTooLong) {
  VirtualQueue queue(1'000'000'000, 100us);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(queue.send(kStart, kBytes)) << i;
  EXPECT_TRUE(queue.send(kStart, kBytes));
}

TEST(VirtualQueue, DrainsByTheClock) {
  VirtualQueue queue(1'000'000'000, 100us);
  for (int i = 0; i < 20; ++i) queue.send(kStart, kBytes);
  EXPECT_TRUE(queue.send(kStart + 109us, kBytes));
  EXPECT_FALSE(queue.send(kStart + 120us, kBytes));
}

TEST(VirtualQueue, NeverMarksBelowTheRate) {
  VirtualQueue queue(1'000'000'000, 100us);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(queue.send(kStart + i * 10us, kBytes));
}

TEST(VirtualQueue, SoonForgetsAnHourOfOverload) {
  VirtualQueue queue(1'000'000'000, 100us);
  for (int i = 0; i < 720'000; ++i) queue.send(kStart + i * 5ms, 1250 * 1000);  // twice the rate
  const Instant end = kStart + 1h;
  EXPECT_TRUE(queue.send(end + 1ms, kBytes));
  EXPECT_FALSE(queue.send(end + 20ms, kBytes));
}

TEST(VirtualQueue, WithoutARateNeverMarks) {
  VirtualQueue queue(0, 0us);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(queue.send(kStart, kBytes));
}

}  // namespace
}  // namespace atp
