#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "atp/core/server/fragment.h"

namespace atp {
namespace {

using std::chrono::milliseconds;

// Every action with its time in milliseconds after the restart: F35 N45.
std::string actions(std::size_t levels, int until_ms) {
  const Timing timing;
  const Instant start{std::chrono::seconds(5)};
  StallState stall;
  restart_stall(stall, start, timing);
  std::string text;
  for (int ms = 0; ms <= until_ms; ++ms) {
    switch (next_stall_action(stall, start + milliseconds(ms), levels, timing)) {
      case StallAction::kNone: break;
      case StallAction::kFlush: text += " F" + std::to_string(ms); break;
      case StallAction::kNack: text += " N" + std::to_string(ms); break;
    }
  }
  return text;
}

TEST(Stall, FlushesOncePerLevelThenSendsNackAndBacksOff) {
  EXPECT_EQ(actions(0, 400), " N25 N75 N175 N375");
  EXPECT_EQ(actions(1, 300), " F25 N35 F85 N95 F195 N205");
  EXPECT_EQ(actions(3, 150), " F25 F35 F45 N55 F105 F115 F125 N135");
}

TEST(Stall, ThePauseNeverExceedsItsLimit) {
  const Timing timing;
  StallState stall;
  Instant now{};
  restart_stall(stall, now, timing);
  for (int i = 0; i < 100; ++i) {
    now = stall.act_at;
    ASSERT_EQ(next_stall_action(stall, now, 0, timing), StallAction::kNack);
    ASSERT_LE(stall.act_at, now + timing.flush_max);
    ASSERT_GT(stall.act_at, now);
  }
}

}  // namespace
}  // namespace atp
