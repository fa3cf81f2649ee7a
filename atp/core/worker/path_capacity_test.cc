#include "atp/core/worker/path_capacity.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kPacket = 1000;

// Answers a packet each millisecond, after this round trip.
Instant answer(PathCapacity& path, Instant from, int packets, Duration round_trip) {
  Instant now = from;
  for (int i = 0; i < packets; ++i) {
    now += milliseconds(1);
    path.on_round_trip(now, round_trip);
    path.on_answer(now, kPacket);
  }
  return now;
}

TEST(PathCapacity, IsUnknownBeforeTheFirstRound) {
  PathCapacity path;
  EXPECT_EQ(path.bytes(), 0U);
  path.on_answer(Instant{} + milliseconds(1), kPacket);
  EXPECT_EQ(path.bytes(), 0U) << "no round trip is known";
}

TEST(PathCapacity, IsWhatIsDeliveredInTheShortestRoundTrip) {
  PathCapacity path;
  Instant now = answer(path, Instant{}, 100, milliseconds(10));
  EXPECT_EQ(path.bytes(), 10 * kPacket);
  now = answer(path, now, 100, milliseconds(30));
  EXPECT_EQ(path.bytes(), 10 * kPacket) << "a queue on the path holds nothing";
  answer(path, now, 100, milliseconds(5));
  EXPECT_EQ(path.bytes(), 5 * kPacket);
}

TEST(PathCapacity, RemembersTheFastestOfTheLatestRounds) {
  PathCapacity path;
  Instant now = answer(path, Instant{}, 200, milliseconds(10));
  for (int i = 0; i < 30; ++i) {  // half as fast for less than eight rounds of 20 ms
    now += milliseconds(2);
    path.on_answer(now, kPacket);
  }
  EXPECT_EQ(path.bytes(), 10 * kPacket);
  for (int i = 0; i < 300; ++i) {
    now += milliseconds(2);
    path.on_answer(now, kPacket);
  }
  EXPECT_EQ(path.bytes(), 5 * kPacket);
}

TEST(PathCapacity, APauseIsNoSlowRoundAndNoFastOne) {
  PathCapacity path;
  Instant now = answer(path, Instant{}, 200, milliseconds(10));
  now += std::chrono::seconds(1);
  path.on_answer(now, kPacket);
  EXPECT_EQ(path.bytes(), 10 * kPacket);
  answer(path, now, 400, milliseconds(10));
  EXPECT_EQ(path.bytes(), 10 * kPacket);
}

TEST(PathCapacity, ALongerRouteCountsOnceTheShorterOneIsTenSecondsOld) {
  PathCapacity path;
  Instant now = answer(path, Instant{}, 1000, milliseconds(10));
  now = answer(path, now, 30'000, milliseconds(20));
  EXPECT_EQ(path.bytes(), 20 * kPacket);
}

}  // namespace
}  // namespace atp
