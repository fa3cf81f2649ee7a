#include "atp/core/answer_pacer.h"

#include <gtest/gtest.h>

#include <chrono>

// How many answers strangers get (docs/inside/protocol §2, *Answers*).

namespace atp {
namespace {

using std::chrono::milliseconds;

constexpr Duration kPause = milliseconds(10);
constexpr Instant kStart{std::chrono::hours(1)};
constexpr std::size_t kBytes = 50;

Endpoint source(unsigned i, std::uint16_t port = 7000) {
  return Endpoint::ipv4(10, static_cast<std::uint8_t>(i >> 16), static_cast<std::uint8_t>(i >> 8),
                        static_cast<std::uint8_t>(i), port);
}

StatusMessage about(Rank rank) {
  return {.code = StatusCode::kUnknownJob, .about = RankSet::of(rank)};
}

class Pacer : public ::testing::Test {
 protected:
  bool ask(Instant now, const Endpoint& from, Rank rank = 0) {
    return pacer.allow(now, from, kBytes, kBytes, about(rank));
  }
  AnswerPacer pacer{kPause, 7};
};

TEST_F(Pacer, NoAnswerIsLargerThanItsCause) {
  EXPECT_FALSE(pacer.allow(kStart, source(1), 49, 50, about(0)));
  EXPECT_TRUE(pacer.allow(kStart, source(1), 50, 50, about(0)));
}

TEST_F(Pacer, OneAnswerIsSentOncePerPauseAndOthersInBetween) {
  EXPECT_TRUE(ask(kStart, source(1), 0));
  EXPECT_TRUE(ask(kStart, source(1), 1));
  EXPECT_TRUE(ask(kStart, source(1, 7001), 0));
  EXPECT_FALSE(ask(kStart + milliseconds(9), source(1), 0));
  EXPECT_FALSE(ask(kStart + milliseconds(9), source(1), 1));
  EXPECT_TRUE(ask(kStart + milliseconds(10), source(1), 0));
}

TEST_F(Pacer, AnAddressGetsItsBurstAndThenOnePerPauseWhateverItsPorts) {
  int answers = 0;
  for (std::uint16_t port = 1; port <= 20'000; ++port) answers += ask(kStart, source(1, port));
  EXPECT_EQ(answers, AnswerPacer::kAddressBurst);
  answers = 0;
  for (std::uint16_t port = 1; port <= 1000; ++port) {
    answers += ask(kStart + milliseconds(port), source(1, port));
  }
  EXPECT_NEAR(answers, 100, 1);
}

TEST_F(Pacer, AllAddressesTogetherGetABurstAndThenAHundredPerPause) {
  int answers = 0;
  for (unsigned i = 0; i < 100'000; ++i) answers += ask(kStart, source(i));
  EXPECT_EQ(answers, AnswerPacer::kTotalBurst);
  answers = 0;
  for (unsigned i = 0; i < 100'000; ++i) answers += ask(kStart + milliseconds(i / 100), source(i));
  EXPECT_NEAR(answers, 1000 * AnswerPacer::kTotalPerPause / 10, AnswerPacer::kTotalBurst);
}

TEST_F(Pacer, AFloodFromOneSourceTakesNoAnswersFromOthers) {
  for (unsigned i = 0; i < 100'000; ++i) {
    ask(kStart, source(1, static_cast<std::uint16_t>(i)), static_cast<Rank>(i % 1024));
  }
  EXPECT_TRUE(ask(kStart, source(2)));
}

// A sender that keeps asking, as every sender of a GRADIENT does, gets an answer in the end.
TEST_F(Pacer, AFloodFromFiveHundredSourcesDelaysAnAnswerButDoesNotPreventIt) {
  int honest = 0;
  for (unsigned i = 0; i < 100'000; ++i) {
    const Instant now = kStart + std::chrono::microseconds(10 * i);  // 100,000 packets per second
    ask(now, source(2 + i % 500, static_cast<std::uint16_t>(i)));
    if (i % 2500 == 0) honest += ask(now, source(1));  // every 25 ms
  }
  EXPECT_GE(honest, 4);
}

}  // namespace
}  // namespace atp
