#include "atp/cli/node/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CounterReport, IsOneJsonObjectPerLine) {
  EXPECT_EQ(to_json_line(1.5, "switch", {{"b", 2}, {"a", 18446744073709551615u}}),
            "{\"time_s\":1.5,\"role\":\"switch\",\"counters\":{\"b\":2,\"a\":18446744073709551615}}"
            "\n");
}

TEST(CounterWatch, ReportsEachRiseOnce) {
  CounterWatch watch({{"leaves", "rank left", "ranks left"}, {"absent", "never", "never"}});
  EXPECT_THAT(watch.lines({{"leaves", 0}}), IsEmpty());
  EXPECT_THAT(watch.lines({{"x", 1}, {"leaves", 2}}), ElementsAre("2 ranks left (2 so far)"));
  EXPECT_THAT(watch.lines({{"leaves", 2}}), IsEmpty());
  EXPECT_THAT(watch.lines({{"leaves", 3}}), ElementsAre("1 rank left (3 so far)"));
  EXPECT_THAT(watch.lines({{"leaves", 7}}), ElementsAre("4 ranks left (7 so far)"));
}

}  // namespace
}  // namespace atp
