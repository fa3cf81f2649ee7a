#include "atp/driver/udp/running_clock.h"

#include <gtest/gtest.h>

#include <vector>

namespace atp {
namespace {

using std::chrono::milliseconds;

// One reading, in milliseconds: what the thread did before (worked, or slept until then at the
// latest), the monotonic clock, and what this clock shows.
struct Reading {
  enum class Before { kWorked, kSlept, kSleptForever } before;
  int until;
  int monotonic;
  int shown;
};
constexpr auto kWorked = Reading::Before::kWorked;
constexpr auto kSlept = Reading::Before::kSlept;
constexpr auto kSleptForever = Reading::Before::kSleptForever;

struct Row {
  const char* name;
  std::vector<Reading> readings;
};

const Row kRows[] = {
    {"AThreadThatWorksSeesAllTime", {{kWorked, 0, 0, 0}, {kWorked, 0, 150, 150}}},
    {"AThreadThatWakesUpInTimeSeesAllTime", {{kWorked, 0, 0, 0}, {kSlept, 900, 900, 900}}},
    {"AThreadThatAPacketWakesSeesAllTime", {{kWorked, 0, 0, 0}, {kSlept, 900, 20, 20}}},
    {"AThreadThatWakesALittleLateWasNotStopped",
     {{kWorked, 0, 0, 0}, {kWorked, 0, 200, 200}, {kSlept, 300, 500, 500}}},
    {"AThreadStoppedAtWorkSeesOnlyTheTimeItMayBeLate",
     {{kWorked, 0, 10, 10}, {kWorked, 0, 7'010, 210}, {kWorked, 0, 7'011, 211}}},
    {"AThreadStoppedAsleepAlsoSeesTheTimeItMeantToSleep",
     {{kWorked, 0, 0, 0}, {kSlept, 500, 7'000, 700}, {kWorked, 0, 7'001, 701}}},
    {"AThreadStoppedTwiceSeesNoMoreOfEitherStop",
     {{kWorked, 0, 0, 0}, {kSlept, 500, 7'000, 700}, {kSlept, 800, 9'000, 1'000}}},
    {"TimePassesForAThreadThatIsLateEachTime",
     {{kWorked, 0, 0, 0}, {kWorked, 0, 300, 200}, {kWorked, 0, 600, 400}, {kWorked, 0, 900, 600}}},
    {"AThreadWithALongSleepIsWokenInBetweenToNoticeStops",
     {{kWorked, 0, 0, 0}, {kSlept, 60'000, 7'000, 1'200}}},
    {"AThreadWhoseTimerIsDueDoesNotSleep",
     {{kWorked, 0, 1'000, 1'000}, {kSlept, 900, 3'000, 1'200}}},
    {"AThreadWithoutATimeOutMaySleepForAnyTime",
     {{kWorked, 0, 0, 0}, {kSleptForever, 0, 90'000, 90'000}, {kWorked, 0, 99'000, 90'200}}},
};

class RunningClockTest : public testing::TestWithParam<Row> {};

TEST_P(RunningClockTest, Shows) {
  const RunningClock::Time begin{std::chrono::hours{1}};
  RunningClock clock;
  for (const Reading& reading : GetParam().readings) {
    if (reading.before == kSlept) {
      const auto wake_up = clock.sleep_until(begin + milliseconds(reading.until));
      EXPECT_LE(wake_up, begin + milliseconds(reading.until));
    }
    if (reading.before == kSleptForever) clock.sleep_forever();
    EXPECT_EQ(clock.at(begin + milliseconds(reading.monotonic)),
              begin + milliseconds(reading.shown));
  }
}

INSTANTIATE_TEST_SUITE_P(All, RunningClockTest, testing::ValuesIn(kRows),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace atp
