#include "atp/core/worker/congestion_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace atp {
namespace {

constexpr std::uint64_t kPacket = 1000;
constexpr std::uint64_t kMax = 400 * kPacket;
constexpr std::uint64_t kFirst = 200 * kPacket;

CongestionWindow aimd() { return {CongestionPolicy::kAimd, kPacket, kMax}; }

// Answers one window, packet by packet, with ECN in those from `marked` on.
void answer_window(CongestionWindow& window, std::uint64_t marked = ~std::uint64_t{0},
                   bool limited = true) {
  const std::uint64_t bytes = window.bytes();
  for (std::uint64_t i = 0; i * kPacket < bytes; ++i) {
    window.on_answer(std::min(kPacket, bytes - i * kPacket), i >= marked, limited);
  }
}

TEST(CongestionWindow, StartsWith200PacketsAtMost256KiB) {
  const struct {
    std::string what;
    std::uint64_t packet;
    std::uint64_t most;
    std::uint64_t bytes;
  } cases[] = {
      {"small packets", 1000, 10'000'000, 200'000},
      {"large packets", 9000, 10'000'000, 262'144},
      {"at least two packets", 300'000, 10'000'000, 600'000},
      {"no more than the streams can have in flight", 1000, 64'000, 64'000},
      {"but at least two packets", 1000, 1000, 2000},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(CongestionWindow(CongestionPolicy::kAimd, c.packet, c.most).bytes(), c.bytes)
        << c.what;
    EXPECT_EQ(CongestionWindow(CongestionPolicy::kNone, c.packet, c.most).bytes(), c.bytes)
        << c.what;
  }
}

TEST(CongestionWindow, IsAnEqualPartOfItIfTheHostSendsToSeveralServers) {
  for (const std::uint64_t servers : {1, 2, 4}) {
    CongestionWindow window(CongestionPolicy::kAimd, kPacket, kMax, servers);
    EXPECT_EQ(window.bytes(), kFirst / servers);
    for (int i = 0; i < 9; ++i) answer_window(window);
    EXPECT_EQ(window.bytes(), kMax / servers) << "and never grows beyond its part";
  }
  EXPECT_EQ(CongestionWindow(CongestionPolicy::kAimd, kPacket, kMax, 1000).bytes(), 2 * kPacket);
}

TEST(CongestionWindow, DoublesUntilTheFirstCutAndNeverExceedsItsMaximum) {
  CongestionWindow window(CongestionPolicy::kAimd, kPacket, 100 * kFirst);
  answer_window(window);
  EXPECT_EQ(window.bytes(), 2 * kFirst);
  answer_window(window);
  EXPECT_EQ(window.bytes(), 4 * kFirst);
  CongestionWindow bounded = aimd();
  for (int i = 0; i < 9; ++i) answer_window(bounded);
  EXPECT_EQ(bounded.bytes(), kMax);
}

TEST(CongestionWindow, ALossHalvesItAMarkTakesAFifthAndThenItGrowsBy1500BytesPerWindow) {
  CongestionWindow lossy = aimd();
  EXPECT_TRUE(lossy.on_loss(0));
  EXPECT_EQ(lossy.bytes(), kFirst / 2);
  CongestionWindow marked = aimd();
  EXPECT_TRUE(marked.on_answer(kPacket, true, true));
  EXPECT_EQ(marked.bytes(), kFirst * 4 / 5);
  for (std::uint64_t i = 1; i <= 10; ++i) {
    answer_window(lossy);
    EXPECT_EQ(lossy.bytes(), kFirst / 2 + i * 1500);
    answer_window(marked);
    EXPECT_EQ(marked.bytes(), kFirst * 4 / 5 + i * 1500);
  }
}

TEST(CongestionWindow, ALossLeavesWhatThePathHolds) {
  const struct {
    std::string what;
    std::uint64_t capacity;
    std::uint64_t bytes;
  } cases[] = {
      {"less than half of the window", kFirst / 4, kFirst / 2},
      {"more than half of it", kFirst * 3 / 4, kFirst * 3 / 4},
      {"more than all of it", 2 * kFirst, kFirst},
  };
  for (const auto& c : cases) {
    CongestionWindow window = aimd();
    EXPECT_TRUE(window.on_loss(c.capacity)) << c.what;
    EXPECT_EQ(window.bytes(), c.bytes) << c.what;
    answer_window(window);
    answer_window(window);
    EXPECT_LE(window.bytes(), c.bytes + 2 * 1500) << "slow start is over: " << c.what;
  }
}

TEST(CongestionWindow, AsInThePaperAnyCutHalvesItWhateverThePathHolds) {
  CongestionWindow lossy(CongestionPolicy::kPaper, kPacket, kMax);
  EXPECT_TRUE(lossy.on_loss(kFirst));
  EXPECT_EQ(lossy.bytes(), kFirst / 2);
  CongestionWindow marked(CongestionPolicy::kPaper, kPacket, kMax);
  EXPECT_TRUE(marked.on_answer(kPacket, true, true));
  EXPECT_EQ(marked.bytes(), kFirst / 2);
  answer_window(marked);
  EXPECT_EQ(marked.bytes(), kFirst / 2 + 1500);
}

TEST(CongestionWindow, IsCutOncePerWindow) {
  CongestionWindow window = aimd();
  EXPECT_TRUE(window.on_loss(0));
  EXPECT_FALSE(window.on_loss(0));
  answer_window(window, 0);
  EXPECT_EQ(window.bytes(), kFirst / 2) << "packets sent before the cut are still being answered";
  answer_window(window, 0);
  EXPECT_EQ(window.bytes(), kFirst * 2 / 5)
      << "the last answer of the second window is to a later packet";
}

TEST(CongestionWindow, KeepsTwoPackets) {
  CongestionWindow window = aimd();
  for (int i = 0; i < 20; ++i) {
    window.on_loss(0);
    window.on_answer(kFirst, false, false);
  }
  EXPECT_EQ(window.bytes(), 2 * kPacket);
}

TEST(CongestionWindow, DoesNotGrowWhereTheApplicationIsTheLimit) {
  CongestionWindow window = aimd();
  for (int i = 0; i < 5; ++i) answer_window(window, ~std::uint64_t{0}, false);
  EXPECT_EQ(window.bytes(), kFirst);
}

TEST(CongestionWindow, WithoutAPolicyStaysAsItIs) {
  CongestionWindow window(CongestionPolicy::kNone, kPacket, kMax);
  answer_window(window, 10);
  EXPECT_FALSE(window.on_loss(0));
  EXPECT_EQ(window.bytes(), kFirst);
}

// Two jobs on one link whose queue marks both when they have more in flight than it carries.
TEST(CongestionWindow, TwoJobsConvergeToEqualShares) {
  CongestionWindow a(CongestionPolicy::kAimd, 1000, 10'000'000);
  CongestionWindow b(CongestionPolicy::kAimd, 9000, 10'000'000);  // another packet size
  for (int i = 0; i < 6; ++i) answer_window(a);                   // long before b starts
  constexpr std::uint64_t kLink = 1'000'000;
  double sum_a = 0;
  double sum_b = 0;
  for (int round = 0; round < 4000; ++round) {
    const bool marked = a.bytes() + b.bytes() > kLink;
    if (round >= 2000) {
      sum_a += static_cast<double>(a.bytes());
      sum_b += static_cast<double>(b.bytes());
    }
    a.on_answer(a.bytes(), marked, true);
    b.on_answer(b.bytes(), marked, true);
  }
  EXPECT_GT(std::min(sum_a, sum_b) / std::max(sum_a, sum_b), 0.5);
}

}  // namespace
}  // namespace atp
