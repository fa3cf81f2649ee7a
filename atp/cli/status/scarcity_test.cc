#include "atp/cli/status/scarcity.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

constexpr std::uint64_t kTotal = 16384;

TEST(Scarcity, EnoughAggregatorsAreThePowerOfTwoAboveWhatWouldHaveBeenHeld) {
  struct Row {
    const char* name;
    std::uint64_t total;
    Wanted wanted;
    std::uint64_t enough;
  };
  const Row rows[] = {
      {"nothing has looked for one", kTotal, {0, 0}, kTotal},
      {"all have found one", 100, {1000, 0}, 100},
      {"few have found none", kTotal, {1000, 30}, 2 * kTotal},
      {"half have found none", kTotal, {1000, 500}, 4 * kTotal},
      {"a switch that has no power of two", 1000, {1000, 10}, 1024},
      {"none has found one", kTotal, {1000, 1000}, 1 << 24},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(enough_aggregators(row.total, row.wanted), row.enough) << row.name;
  }
}

TEST(Scarcity, AJobGainsAtMostThePacketsThatItsCollisionsCostTheLinkAbove) {
  struct Row {
    const char* name;
    Wanted wanted;
    std::uint64_t children, limit;
    double gain;
  };
  const Row rows[] = {
      {"nothing has collided", {1000, 0}, 8, kTotal, 0},
      {"a collision of eight children costs seven packets", {1000, 30}, 8, kTotal, 0.21},
      {"all fragments collide", {1000, 1000}, 8, kTotal, 7},
      {"a single child sends as many packets anyway", {1000, 30}, 1, kTotal, 0},
      {"no child is left", {1000, 30}, 0, kTotal, 0},
      {"an option binds the job", {1000, 30}, 8, kTotal - 1, 0},
      {"a stranger says that more collided than came", {1000, 3000}, 2, kTotal, 1},
  };
  for (const Row& row : rows) {
    EXPECT_DOUBLE_EQ(gain_of(row.wanted, row.children, row.limit, kTotal), row.gain) << row.name;
  }
}

}  // namespace
}  // namespace atp
