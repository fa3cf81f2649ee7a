// Regression tests for five defects of the code that was published with the paper. The fifth is in
// the worker: PublishedDefect.EveryGradientCarriesItsValues.
#include <gmock/gmock.h>

#include "atp/core/server/server_harness.h"

namespace atp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint8_t kStraightRepeat = ATP_FLAG_RESEND | ATP_FLAG_DIRECT;

std::vector<Sent> parameters_to(std::vector<Sent> sent, const Endpoint& to) {
  std::erase_if(sent, [&](const Sent& s) { return s.type() != PacketType::kParameter; });
  std::erase_if(sent, [&](const Sent& s) { return !(s.to == to); });
  return sent;
}

// A: one worker lost the result and repeats; the stored sum came back with its bytes swapped.
TEST(PublishedDefect, ARepeatedResultHasTheSameBytesEachTime) {
  ServerHarness h = ServerHarness::flat(2);
  const Endpoint worker = worker_endpoint(1);
  h.gradient(worker_endpoint(0), {.ranks = ranks({0}), .values = {1, 2}});
  h.gradient(worker, {.ranks = ranks({1}), .values = {1, 2}});
  const auto first = parameters_to(h.take(), worker);
  ASSERT_THAT(first, SizeIs(testing::Ge(1)));
  EXPECT_THAT(first[0].values(), ElementsAre(2, 4));
  for (int repeat = 0; repeat < 3; ++repeat) {
    h.advance(std::chrono::milliseconds(100));
    h.out.clear();
    h.gradient(worker, {.ranks = ranks({1}), .values = {1, 2}, .flags = kStraightRepeat});
    const auto again = parameters_to(h.take(), worker);
    ASSERT_THAT(again, SizeIs(testing::Ge(1)));
    EXPECT_EQ(again[0].body, first[0].body) << "repeat " << repeat;
  }
}

// B: a late repeat of one tensor was summed into the next one.
TEST(PublishedDefect, ALateRepeatOfOneTensorIsNotSummedIntoTheNext) {
  ServerHarness h = ServerHarness::flat(2);
  constexpr std::uint32_t kNext = kTestOperation + 1;
  for (const Rank rank : {0, 1}) {
    h.gradient(worker_endpoint(rank), {.ranks = RankSet::of(rank), .values = {1000, 1002}});
  }
  h.gradient(worker_endpoint(0),
             {.sequence = 1, .ranks = ranks({0}), .values = {10, 11}, .operation = kNext});
  h.out.clear();
  h.gradient(worker_endpoint(1),
             {.ranks = ranks({1}), .values = {1000, 1002}, .flags = kStraightRepeat});
  h.gradient(worker_endpoint(1),
             {.sequence = 1, .ranks = ranks({1}), .values = {10, 11}, .operation = kNext});
  auto second = parameters_to(h.take(), worker_endpoint(0));
  std::erase_if(second, [](const Sent& s) { return s.header.sequence != 1; });
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_THAT(second[0].values(), ElementsAre(20, 22));
  // Nor is it added under the next tensor's sequence: the operation differs.
  h.gradient(worker_endpoint(0),
             {.sequence = 2, .ranks = ranks({0}), .values = {10, 11}, .operation = kNext});
  h.gradient(worker_endpoint(1), {.sequence = 2, .ranks = ranks({1}), .values = {1000, 1002}});
  EXPECT_EQ(h.count(ServerCounter::kDropWrongOperation), 1u);
  EXPECT_THAT(h.take(PacketType::kParameter), IsEmpty());
}

// C: 2e9 + 2e9 at the server came out as −294967296.
TEST(PublishedDefect, AnOverflowAtTheServerIsDetected) {
  ServerHarness h = ServerHarness::flat(2);
  for (const Rank rank : {0, 1}) {
    h.gradient(
        worker_endpoint(rank),
        {.ranks = RankSet::of(rank), .values = {2'000'000'000, 1}, .magnitude = 2'000'000'000});
  }
  const auto sent = h.take();
  ASSERT_THAT(sent, SizeIs(2));
  for (const Sent& nack : sent) {
    EXPECT_EQ(nack.type(), PacketType::kNack);
    EXPECT_TRUE(nack.has(ATP_FLAG_FLOAT));
  }
}

// D: with another optimization level, the first worker's packet was taken for the sum of all.
TEST(PublishedDefect, NoResultBeforeTheLastWorkersPacket) {
  ServerHarness h = ServerHarness::flat(3);
  for (const Rank rank : {0, 1, 0, 1}) {
    h.gradient(worker_endpoint(rank), {.ranks = RankSet::of(rank), .values = {1, 2}});
    EXPECT_THAT(h.take(PacketType::kParameter), IsEmpty());
  }
  h.gradient(worker_endpoint(2), {.ranks = ranks({2}), .values = {1, 2}});
  EXPECT_THAT(h.take(PacketType::kParameter), SizeIs(3));
}

}  // namespace
}  // namespace atp
