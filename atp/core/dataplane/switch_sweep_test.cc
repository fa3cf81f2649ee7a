#include <gmock/gmock.h>

#include "atp/core/dataplane/switch_rig_test.h"

// How aggregators are freed without their PARAMETER, and what a full outbox costs
// (docs/inside/protocol §4).

namespace atp::rig {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(SwitchSweep, TheSweepEmitsUnusedSums) {
  Rig rig;
  rig.join_all();
  rig.in(child(0), gradient(ranks({0}), 0, 5));
  rig.in(child(1), gradient(ranks({1}), 0, 6));
  EXPECT_THAT(rig.wait(1s), IsEmpty());
  const auto sent = rig.wait(251ms);
  ASSERT_THAT(receivers(sent), ElementsAre(kServer));
  EXPECT_EQ(sent[0].view().ranks, ranks({0, 1}));
  EXPECT_EQ(sent[0].view().header.flags, ATP_FLAG_RESEND);
  EXPECT_EQ(sent[0].view().header.aggregator_index,
            head(PacketType::kGradient, 0).aggregator_index);
  EXPECT_THAT(sent[0].values(), Each(11u));
  EXPECT_EQ(rig.count(SwitchCounter::kSweptSumsSent), 1u);
  EXPECT_EQ(rig.node.aggregators_in_use(), 0u);
  rig.in(child(2), gradient(ranks({2}), 0, 7));
  EXPECT_EQ(rig.count(SwitchCounter::kForwardedLate), 1u) << "the fragment is noted";
}

TEST(SwitchSweep, TheSweepFreesTheAggregatorsOfAForgottenTree) {
  SwitchConfig slow = config();
  slow.timing.reclaim = 10s;
  Rig rig(slow);
  rig.join_all();
  rig.in(child(0), gradient(ranks({0}), 0, 5));
  rig.wait(9s);
  EXPECT_EQ(rig.node.trees(), 0u);
  EXPECT_EQ(rig.node.aggregators_in_use(), 1u);
  EXPECT_THAT(rig.wait(2s), IsEmpty());
  EXPECT_EQ(rig.count(SwitchCounter::kSweptDiscarded), 1u);
  EXPECT_EQ(rig.node.aggregators_in_use(), 0u);
  EXPECT_EQ(rig.node.next_timeout(), kNever);
}

TEST(SwitchSweep, TheSweepWaitsForRoomInTheOutbox) {
  Rig rig;
  rig.join_all();
  for (std::uint64_t s = 0; s < 20; ++s) {
    atp_header h = head(PacketType::kGradient, s);
    h.value_count = kValues;
    h.aggregator_index = static_cast<std::uint32_t>(s << 27);
    rig.in(child(0), packet(h, ranks({0}), 1));
  }
  ASSERT_EQ(rig.node.aggregators_in_use(), 20u);
  rig.now += 2s;
  std::size_t sent = 0;
  std::size_t rounds = 0;
  Outbox small(4, 1 << 20);
  for (; rig.node.next_timeout() <= rig.now; ++rounds) {
    rig.node.handle_timeout(rig.now, small);
    sent += small.packets().size();
    EXPECT_LE(small.packets().size(), 4u);
    small.clear();
  }
  EXPECT_EQ(sent, 20u);
  EXPECT_GE(rounds, 5u);
  EXPECT_EQ(small.lost(), 0u);
}

TEST(SwitchSweep, AParameterReclaimsAnUnusedSumOfAnotherIdentity) {
  SwitchConfig one = config();
  one.aggregators = 1;
  one.timing.sweep = 1h;
  Rig rig(one);
  rig.join_all();
  rig.in(child(0), gradient(ranks({0}), 0, 5));
  rig.wait(2s);
  const auto sent = rig.in(kServer, parameter(RankSet::first(4), 1));
  ASSERT_THAT(sent, SizeIs(5));
  EXPECT_EQ(sent[0].to, kServer);
  EXPECT_EQ(sent[0].view().type(), PacketType::kGradient);
  EXPECT_TRUE(sent[0].view().has(ATP_FLAG_RESEND));
  EXPECT_THAT(sent[0].values(), Each(5u));
  EXPECT_EQ(rig.count(SwitchCounter::kReclaims), 1u);
  EXPECT_EQ(rig.node.aggregators_in_use(), 0u);
}

TEST(SwitchSweep, WhatAParameterReclaimsIsNotedAtItsOwnHome) {
  SwitchConfig two_places = config();
  two_places.places = 2;
  two_places.timing.sweep = 1h;
  Rig rig(two_places);
  rig.join_all();
  const auto at_home = [](Bytes bytes, std::uint32_t home) {
    atp_store32(&bytes[ATP_AT_AGGREGATOR_INDEX], home << 26);  // of 64
    return bytes;
  };
  rig.in(child(0), at_home(gradient(ranks({0}), 0, 5), 10));
  rig.in(child(0), at_home(gradient(ranks({0}), 1, 5), 10));  // takes aggregator 11
  rig.in(child(0), at_home(gradient(ranks({0}), 2, 5), 12));
  rig.wait(2s);
  rig.in(kServer, at_home(parameter(RankSet::first(4), 3), 11));
  ASSERT_EQ(rig.count(SwitchCounter::kReclaims), 1u);
  rig.in(child(1), at_home(gradient(ranks({1}), 1, 5), 10));
  EXPECT_EQ(rig.count(SwitchCounter::kForwardedLate), 1u);
  EXPECT_EQ(rig.node.aggregators_in_use(), 2u);
}

TEST(SwitchSweep, AFullOutboxLosesPacketsButNoContribution) {
  Rig rig;
  rig.join_all();
  Outbox none(0, 0);
  for (unsigned rank = 0; rank < 4; ++rank) {
    rig.node.handle_packet(rig.now, child(rank), kOwn,
                           gradient(RankSet::of(static_cast<Rank>(rank)), 0, 1 << rank), none);
  }
  const auto sent = rig.in(child(0), gradient(ranks({0}), 0, 1));
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_THAT(sent[0].values(), Each(15u));
}

}  // namespace
}  // namespace atp::rig
