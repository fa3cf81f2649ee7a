#include "atp/core/worker/aggregator_room.h"

#include <gtest/gtest.h>

#include <string>

#include "atp/wire/packet.h"

namespace atp {
namespace {

constexpr std::uint64_t kMost = 40;

// So many answers, of which the first ones collided, each with as many in flight after it. Returns
// how often the room was cut.
int answers(AggregatorRoom& room, std::uint64_t count, std::uint64_t collided = 0,
            std::uint64_t in_flight = 0) {
  int cuts = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    room.on_send();
    if (room.on_answer(i < collided, [&] { return in_flight; })) ++cuts;
  }
  return cuts;
}

// Its first answer has had no part.
AggregatorRoom unbounded_room(std::uint64_t servers = 1) {
  AggregatorRoom room(kMost, servers);
  answers(room, 1);
  return room;
}

AggregatorRoom room_of(std::uint64_t fragments) {
  AggregatorRoom room = unbounded_room();
  answers(room, 1, 1, fragments - 1);
  return room;
}

TEST(AggregatorRoom, IsSmallUntilTheFirstAnswerSaysThePart) {
  constexpr std::uint64_t kFirst = AggregatorRoom::kFirst;
  const struct {
    const char* name;
    std::uint64_t most, servers, part, first, fragments;
  } cases[] = {
      {"nothing is said", 400, 1, 0, kFirst, AggregatorRoom::kNoBound},
      {"a part larger than the room", 400, 1, 100, kFirst, 100},
      {"a part of two servers", 400, 2, 100, kFirst, 50},
      {"a smaller part", 400, 1, 8, kFirst, kFirst},
      {"a part of all that may be in flight", 400, 1, 400, kFirst, AggregatorRoom::kNoBound},
      {"no more may be in flight anyway", kFirst, 1, 8, AggregatorRoom::kNoBound,
       AggregatorRoom::kNoBound},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    AggregatorRoom room(c.most, c.servers);
    EXPECT_EQ(room.fragments(), c.first);
    room.on_part(atp_part_code(c.part));
    EXPECT_EQ(answers(room, 1), 0);
    EXPECT_EQ(room.fragments(), c.fragments);
  }
}

TEST(AggregatorRoom, TheFirstAnswerCountsAsAnyOther) {
  AggregatorRoom room(kMost);
  EXPECT_EQ(answers(room, 1, 1, 19), 1) << "bounded as by any first collision";
  EXPECT_EQ(room.fragments(), 20u);
  AggregatorRoom told(kMost);
  told.on_part(atp_part_code(8));
  EXPECT_EQ(answers(told, AggregatorRoom::kFirst, 3), 1) << "a round with three collisions";
  EXPECT_EQ(told.fragments(), AggregatorRoom::kFirst - 3);
}

TEST(AggregatorRoom, HasNoBoundBeforeTheFirstCollisionAndAsksForNothing) {
  AggregatorRoom room(kMost);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(room.on_answer(false, []() -> std::uint64_t {
      ADD_FAILURE() << "what is in flight was counted";
      return 0;
    }));
  }
  EXPECT_FALSE(room.bounded());
}

TEST(AggregatorRoom, TheFirstCollisionBoundsItToWhatWasInFlightWhenTheWorkerLastSent) {
  const struct {
    std::string what;
    std::uint64_t in_flight;  // after the answer
    int answered;             // since the worker last sent
    std::uint64_t fragments;
  } cases[] = {
      {"each answer lets one more go", 19, 1, 20},
      {"the answers come in a train", 12, 8, 20},
      {"it is the last answer of an operation", 0, 20, 20},
      {"it was alone", 0, 1, AggregatorRoom::kLeast},
  };
  for (const auto& c : cases) {
    AggregatorRoom room(kMost);
    answers(room, 30, 0, 5);
    room.on_send();
    for (int i = 1; i < c.answered; ++i) room.on_answer(false, [] { return 0; });
    EXPECT_TRUE(room.on_answer(true, [&] { return c.in_flight; })) << c.what;
    EXPECT_EQ(room.fragments(), c.fragments) << c.what;
  }
}

TEST(AggregatorRoom, ARoundShrinksItByItsCollisionsButNotBelowTwo) {
  const struct {
    std::uint64_t collided;
    std::uint64_t fragments;
  } cases[] = {{1, 9}, {5, 5}, {8, 2}, {9, 2}, {10, 2}};
  for (const auto& c : cases) {
    AggregatorRoom room = room_of(10);
    EXPECT_EQ(answers(room, 9, c.collided), 0) << "the round is not over";
    EXPECT_EQ(answers(room, 1, c.collided == 10 ? 1 : 0), 1);
    EXPECT_EQ(room.fragments(), c.fragments);
  }
  AggregatorRoom least = room_of(2);
  EXPECT_EQ(answers(least, 2, 2), 0) << "this is no cut";
  EXPECT_EQ(least.fragments(), 2u);
}

TEST(AggregatorRoom, AnswersToWhatWasSentBeforeACutDoNotCount) {
  AggregatorRoom room = room_of(10);
  answers(room, 10, 3, 9);
  ASSERT_EQ(room.fragments(), 7u);
  EXPECT_EQ(answers(room, 9, 9, 6), 0);
  EXPECT_EQ(answers(room, 6, 2, 6), 0) << "the next round";
  EXPECT_EQ(answers(room, 1, 0, 6), 1);
  EXPECT_EQ(room.fragments(), 5u);
}

TEST(AggregatorRoom, GrowsByOneAfterManyRoundsWithoutCollisions) {
  const struct {
    std::uint8_t part;
    std::uint64_t rounds;
  } cases[] = {{0, AggregatorRoom::kCleanRoundsWithoutPart}, {1, AggregatorRoom::kCleanRounds}};
  for (const auto& [part, rounds] : cases) {
    SCOPED_TRACE(part);
    AggregatorRoom room = room_of(10);
    room.on_part(part);
    answers(room, 10 * rounds - 1);
    EXPECT_EQ(room.fragments(), 10u);
    answers(room, 1);
    EXPECT_EQ(room.fragments(), 11u);
    answers(room, rounds * 11);
    EXPECT_EQ(room.fragments(), 12u);
    answers(room, (rounds - 1) * 12 + 11);
    answers(room, 1, 1);
    ASSERT_EQ(room.fragments(), 11u) << "the last round had one";
    answers(room, rounds * 11 - 1);
    EXPECT_EQ(room.fragments(), 11u) << "a cut ends the row";
    answers(room, 1);
    EXPECT_EQ(room.fragments(), 12u);
  }
}

TEST(AggregatorRoom, IsAtLeastFiveEighthsOfThePartWhenARoundHasEnded) {
  const struct {
    const char* name;
    std::uint64_t servers, part, collided, fragments;
  } cases[] = {{"nothing was said", 1, 0, 10, 2},
               {"a part of 11", 1, 11, 10, 6},
               {"a part of 4 is less than the least", 1, 4, 10, 2},
               {"fewer collisions leave more", 1, 11, 1, 9},
               {"a part larger than the room", 1, 20, 10, 12},
               {"without collisions too", 1, 20, 0, 12},
               {"two servers share the part", 2, 20, 10, 6},
               {"all that the streams may send is no bound", 1, 8 * kMost / 5, 10,
                AggregatorRoom::kNoBound}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    AggregatorRoom room = unbounded_room(c.servers);
    room.on_part(atp_part_code(c.part));
    answers(room, 1, 1, 9);
    ASSERT_EQ(room.fragments(), 10u) << "as many as were in flight";
    EXPECT_EQ(answers(room, 10, c.collided), c.fragments < 10 ? 1 : 0);
    EXPECT_EQ(room.fragments(), c.fragments);
  }
}

TEST(AggregatorRoom, ChangesAsThePartDoes) {
  AggregatorRoom room = room_of(10);
  room.on_part(atp_part_code(30));
  EXPECT_EQ(room.fragments(), 10u) << "nothing was said before";
  room.on_part(atp_part_code(20));
  EXPECT_EQ(room.fragments(), 7u);
  room.on_part(atp_part_code(20));
  room.on_part(atp_part_code(30));
  EXPECT_EQ(room.fragments(), 11u) << "rounded to the nearest";
  room.on_part(atp_part_code(1));
  EXPECT_EQ(room.fragments(), AggregatorRoom::kLeast);
  AggregatorRoom unbounded = unbounded_room();
  unbounded.on_part(atp_part_code(20));
  unbounded.on_part(atp_part_code(2));
  EXPECT_FALSE(unbounded.bounded());
}

TEST(AggregatorRoom, HasNoBoundAnyMoreWhenItHoldsAllThatTheStreamsMaySend) {
  AggregatorRoom room = room_of(kMost - 1);
  answers(room, AggregatorRoom::kCleanRoundsWithoutPart * (kMost - 1) - 1);
  EXPECT_TRUE(room.bounded());
  answers(room, 1);
  EXPECT_FALSE(room.bounded());
  EXPECT_EQ(answers(room, 1, 1, 11), 1) << "another collision bounds it again";
  EXPECT_EQ(room.fragments(), 12u);
}

TEST(AggregatorRoom, ThatIsBoundedAgainBeginsAnew) {
  const struct {
    const char* name;  // what it counted before
    std::uint64_t answers, collided;
  } cases[] = {{"the answers of a round", 9, 0},
               {"its collisions", 9, 3},
               {"rounds without collisions", 10 * (AggregatorRoom::kCleanRoundsWithoutPart - 1), 0},
               {"answers to what was sent before a cut", 10, 1}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    AggregatorRoom room = room_of(10);
    room.on_part(atp_part_code(8));
    answers(room, c.answers, c.collided, 9);
    room.on_part(atp_part_code(64));
    ASSERT_FALSE(room.bounded());
    room.on_part(atp_part_code(8));
    answers(room, 1, 1, 9);
    ASSERT_EQ(room.fragments(), 10u);
    AggregatorRoom clean = room;
    EXPECT_EQ(answers(clean, 10), 0);
    EXPECT_EQ(clean.fragments(), 10u);
    EXPECT_EQ(answers(room, 9, 1), 0) << "the round is not over";
    EXPECT_EQ(answers(room, 1), 1);
    EXPECT_EQ(room.fragments(), 9u);
  }
}

TEST(AggregatorRoom, ThatIsSwitchedOffNeverHasABound) {
  AggregatorRoom room;
  EXPECT_EQ(answers(room, 100, 100, 10), 0);
  EXPECT_FALSE(room.bounded());
}

}  // namespace
}  // namespace atp
