#include <gtest/gtest.h>

#include "atp/core/server/server_harness.h"

// Which ranks are reached past the switches (docs/inside/protocol §5, §6).

namespace atp {
namespace {

using std::chrono::seconds;

class DetachedRanks : public testing::Test {
 protected:
  void straight(Rank rank, std::uint32_t detachments, bool detached) {
    straight_from(worker_endpoint(rank), rank, detachments, detached);
  }
  void straight_from(const Endpoint& own, Rank rank, std::uint32_t detachments, bool detached) {
    TestJoin join = h_.join_of(rank, 2, false);
    join.flags = ATP_FLAG_DIRECT;
    join.body.detachments = detachments;
    join.body.detached = detached;
    h_.join(own, join);
  }
  void tree(Rank rank, std::uint32_t detachments, bool detached) {
    TestJoin join = h_.join_of(rank, 2, true);
    join.body.detachments = detachments;
    join.body.detached = detached;
    h_.join(kTestSwitch, join);
  }
  RankSet detached() const { return h_.summary().detached; }
  ServerHarness h_ = ServerHarness::behind_switch(2);
};

TEST_F(DetachedRanks, AreDeclaredByAMarkedStraightJoinWhichTheSwitchesLearn) {
  straight(1, 1, true);
  const auto sent = h_.take(StatusCode::kDetached);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, kTestSwitch);
  EXPECT_EQ(sent[0].ranks, RankSet::first(2));
  EXPECT_EQ(sent[0].status().about, ranks({1}));
  EXPECT_EQ(sent[0].status().numbers[0], 1u);
  EXPECT_EQ(detached(), ranks({1}));
  for (int i = 0; i < 3; ++i) {
    h_.advance(seconds(1));
    h_.join_rank(0, 2, true);
    straight(1, 1, true);
  }
  EXPECT_EQ(h_.take(StatusCode::kDetached).size(), 3u) << "repeated with the leases";
}

TEST_F(DetachedRanks, AreReachedWhereTheirLastStraightJoinCameFrom) {
  const Endpoint elsewhere = Endpoint::ipv4(10, 0, 0, 77, 7777);
  straight(1, 1, true);
  straight_from(elsewhere, 1, 1, true);
  h_.take();
  h_.gradient(elsewhere, {.ranks = ranks({1}), .flags = ATP_FLAG_DIRECT});
  h_.gradient(kTestSwitch, {.ranks = ranks({0})});
  const auto sent = h_.take(PacketType::kParameter);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[1].to, elsewhere);
}

// If its switch is dead, the PARAMETER must go around it.
TEST_F(DetachedRanks, ParametersGoDownTheTreeAndStraightToTheDetached) {
  straight(1, 1, true);
  h_.take();
  h_.gradient(worker_endpoint(1), {.ranks = ranks({1}), .flags = ATP_FLAG_DIRECT});
  h_.gradient(kTestSwitch, {.ranks = ranks({0})});
  const auto sent = h_.take(PacketType::kParameter);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].to, kTestSwitch);
  EXPECT_EQ(sent[1].to, worker_endpoint(1));
  for (const Sent& s : sent)
    EXPECT_EQ(s.ranks, RankSet::first(2)) << "it must release the aggregator in the switch too";
}

TEST_F(DetachedRanks, ADetachedRanksSumsFromItsSwitchStillCount) {
  straight(1, 1, true);
  h_.take();
  h_.gradient(kTestSwitch, {.ranks = ranks({0, 1})});
  EXPECT_FALSE(h_.take(PacketType::kParameter).empty());
}

TEST_F(DetachedRanks, ProbesAndUnmarkedStraightJoinsDoNotEndIt) {
  straight(1, 1, true);
  tree(1, 1, true);
  const auto acks = h_.take(PacketType::kJoinAck);
  ASSERT_EQ(acks.size(), 2u);
  EXPECT_TRUE(acks[1].ack().detached);
  EXPECT_EQ(acks[1].ack().detachments, 1u);
  EXPECT_FALSE(acks[1].has(ATP_FLAG_DIRECT));
  EXPECT_EQ(detached(), ranks({1}));
  straight(1, 1, false);
  EXPECT_EQ(detached(), ranks({1}));
  tree(1, 1, false);
  EXPECT_TRUE(detached().empty());
  straight(1, 7, false);
  EXPECT_TRUE(detached().empty());
}

// A late packet must not undo a newer statement.
TEST_F(DetachedRanks, TheHigherNumberCounts) {
  straight(1, 1, true);
  tree(1, 1, false);
  straight(1, 1, true);
  EXPECT_TRUE(detached().empty()) << "an old straight JOIN";
  straight(1, 2, true);
  EXPECT_EQ(detached(), ranks({1}));
  h_.take();
  tree(1, 1, false);
  EXPECT_EQ(detached(), ranks({1})) << "an old JOIN through the tree";
  EXPECT_EQ(h_.take(StatusCode::kDetached).size(), 1u)
      << "sent at once: the switch may have believed the old JOIN";
}

TEST_F(DetachedRanks, TheNumberOutlivesTheTreesLease) {
  straight(1, 3, true);
  for (int i = 0; i < 6; ++i) {
    h_.advance(seconds(1));
    h_.join_rank(0, 2, true);
    straight(1, 3, true);
  }
  tree(1, 2, false);
  EXPECT_EQ(detached(), ranks({1}));
  tree(1, 3, false);
  EXPECT_TRUE(detached().empty());
}

TEST_F(DetachedRanks, GradientsWithDirectDetachNobody) {
  h_.gradient(kTestSwitch, {.ranks = ranks({1}), .flags = ATP_FLAG_DIRECT | ATP_FLAG_RESEND});
  h_.gradient(worker_endpoint(0), {.ranks = ranks({0}), .flags = ATP_FLAG_DIRECT});
  EXPECT_TRUE(detached().empty());
}

}  // namespace
}  // namespace atp
