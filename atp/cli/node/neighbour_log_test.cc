#include "atp/cli/node/neighbour_log.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

using Lines = std::vector<std::string>;

constexpr Endpoint kSpine = Endpoint::ipv4(10, 77, 3, 10, 5501);
constexpr Endpoint kRank = Endpoint::ipv4(10, 77, 1, 11, 40000);

TEST(UnreachableLog, SaysWhoIsUnreachable) {
  UnreachableLog log;
  EXPECT_EQ(log.lines(), Lines{});
  for (int i = 0; i < 6; ++i) log.add(kSpine);
  EXPECT_EQ(log.lines(), Lines{"6 ICMP errors (6 so far): 10.77.3.10:5501 is unreachable"});
  EXPECT_EQ(log.lines(), Lines{}) << "only what is new";
  log.add(kRank);
  EXPECT_EQ(log.lines(), Lines{"1 ICMP error (7 so far): 10.77.1.11:40000 is unreachable"});
}

TEST(UnreachableLog, NamesOnlySoManyAtATime) {
  UnreachableLog log;
  for (std::uint16_t port = 1; port <= 100; ++port) log.add(Endpoint::ipv4(10, 0, 0, 1, port));
  const Lines lines = log.lines();
  ASSERT_EQ(lines.size(), UnreachableLog::kMaxPeers + 1);
  EXPECT_EQ(lines.back(), "92 ICMP errors (100 so far): others are unreachable");
}

}  // namespace
}  // namespace atp
