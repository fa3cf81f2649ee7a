#include "atp/core/server/job.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "atp/core/server/server_harness.h"

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

JobSummary summary_of(const ServerHarness& h) {
  JobSummary result;
  h.server.for_each_job(h.now, [&](const JobSummary& s) { result = s; });
  return result;
}

// --- joining ---

TEST(Joining, AllAreAnsweredTheWaysTheyCameOnceTheLastIsIn) {
  ServerHarness h;
  h.join_rank(0, 2, true);
  EXPECT_TRUE(h.take().empty());
  h.join(kTestSwitch, h.join_of(1, 2, true));
  const auto sent = h.take();
  ASSERT_EQ(sent.size(), 3u) << "rank 0 by both ways, rank 1 through the tree";
  for (const Sent& s : sent) {
    EXPECT_EQ(s.type(), PacketType::kJoinAck);
    EXPECT_EQ(s.has(ATP_FLAG_DIRECT), s.to == worker_endpoint(0));
    const JoinAck ack = s.ack();
    EXPECT_EQ(s.ranks.size(), 1u);
    EXPECT_EQ(ack.nonce, nonce_of(s.ranks.lowest()));
    EXPECT_EQ(ack.server_boot_id, 4242u);
    EXPECT_EQ(ack.value_count, 2);
    EXPECT_EQ(ack.wmax, 8u);
    EXPECT_EQ(ack.lease_ms, 5000u);
    EXPECT_EQ(ack.world_size, 2);
    EXPECT_EQ(ack.scale, 1e8);
  }
  h.join(kTestSwitch, h.join_of(0, 2, true));
  EXPECT_EQ(h.take(PacketType::kJoinAck).size(), 1u) << "each refresh is answered";
}

TEST(Joining, TheLeastValueCountOfAllWins) {
  ServerHarness h;
  TestJoin join = h.join_of(0, 2, false);
  join.body.max_value_count = 500;
  h.join(worker_endpoint(0), join);
  join = h.join_of(1, 2, false);
  join.body.max_value_count = 60;
  h.join(worker_endpoint(1), join);
  EXPECT_EQ(h.take()[0].ack().value_count, 60);

  ServerHarness own_limit;
  join = own_limit.join_of(0, 1, false);
  join.body.max_value_count = 500;
  own_limit.join(worker_endpoint(0), join);
  EXPECT_EQ(own_limit.take()[0].ack().value_count, 100);
}

TEST(Joining, AnAutomaticScaleStartsAtAMillion) {
  ServerHarness h;
  TestJoin join = h.join_of(0, 1, false);
  join.body.scale_mode = ScaleMode::kAutomatic;
  h.join(worker_endpoint(0), join);
  const JoinAck ack = h.take()[0].ack();
  EXPECT_EQ(ack.scale_mode, ScaleMode::kAutomatic);
  EXPECT_EQ(ack.scale, 1048576.0);
}

TEST(Joining, AStraightJoinAloneCountsWhenDetachedOrWhenTheTreeStaysSilentForALease) {
  ServerHarness h;
  TestJoin join = h.join_of(0, 1, false);
  join.flags = ATP_FLAG_DIRECT;
  h.join(worker_endpoint(0), join);
  EXPECT_TRUE(h.take(PacketType::kJoinAck).empty()) << "its path may carry less";
  join.body.detached = true;
  join.body.detachments = 1;
  h.join(worker_endpoint(0), join);
  const auto sent = h.take(PacketType::kJoinAck);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(sent[0].has(ATP_FLAG_DIRECT));
  EXPECT_TRUE(sent[0].ack().detached);
  EXPECT_EQ(sent[0].ack().detachments, 1u);

  ServerHarness silent;
  TestJoin unmarked = silent.join_of(0, 1, false);
  unmarked.flags = ATP_FLAG_DIRECT;
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(silent.take(PacketType::kJoinAck).empty());
    silent.join(worker_endpoint(0), unmarked);
    silent.advance(milliseconds(999));
  }
  EXPECT_FALSE(silent.take(PacketType::kJoinAck).empty());
}

TEST(Joining, AfterASecondAJoinHearsWhoIsMissing) {
  ServerHarness h;
  h.join_rank(0, 3, true);
  h.join_rank(2, 3, true);
  EXPECT_TRUE(h.take().empty());
  h.advance(milliseconds(1100));
  h.join_rank(0, 3, true);
  h.join_rank(0, 3, true);
  const auto sent = h.take(StatusCode::kWaitingFor);
  ASSERT_EQ(sent.size(), 2u) << "at most one within a second to a rank, on either way";
  EXPECT_EQ(sent[0].to, kTestSwitch);
  EXPECT_EQ(sent[0].header.flags, 0);
  EXPECT_EQ(sent[1].to, worker_endpoint(0));
  EXPECT_EQ(sent[1].header.flags, ATP_FLAG_DIRECT);
  for (const Sent& s : sent) {
    EXPECT_EQ(s.ranks, ranks({0}));
    EXPECT_EQ(s.status().about, ranks({1}));
    EXPECT_EQ(s.header.operation, 0u);
  }
}

struct Disagreement {
  std::string name;
  std::function<void(TestJoin&)> change;
  Refusal refusal;
};

TEST(Joining, WhatDoesNotAgreeIsRefusedWithWhatWasExpectedAndFoundAndWhoSaysOtherwise) {
  const RankSet first_rank = ranks({0});
  const std::uint32_t agreed_streams = streams_number(0, 2);
  const std::vector<Disagreement> rows = {
      {"another world size",
       [](TestJoin& j) { j.body.world_size = 3; },
       {RefusalReason::kWorldSize, 2, 3, first_rank}},
      {"another bitmap width",
       [](TestJoin& j) { j.bitmap_words = 2; },
       {RefusalReason::kWorldSize, 2, 2, first_rank}},
      {"a rank beyond the world", [](TestJoin& j) { j.rank = 2; }, {RefusalReason::kRank, 2, 2}},
      {"fewer streams",
       [](TestJoin& j) { j.body.stream_count = 1; },
       {RefusalReason::kStreams, agreed_streams, streams_number(0, 1), first_rank}},
      {"more streams",
       [](TestJoin& j) { j.body.stream_count = 3; },
       {RefusalReason::kStreams, agreed_streams, streams_number(0, 3), first_rank}},
      {"streams that overlap",
       [](TestJoin& j) {
         j.body.first_stream = 1;
         j.body.stream_count = 3;
       },
       {RefusalReason::kStreams, agreed_streams, streams_number(1, 3), first_rank}},
      {"another scale mode",
       [](TestJoin& j) { j.body.scale_mode = ScaleMode::kAutomatic; },
       {RefusalReason::kScaleMode, 0, 1, first_rank}},
      {"another version",
       [](TestJoin& j) {
         j.body.version_min = 2;
         j.body.version_max = 3;
       },
       {RefusalReason::kVersion, 0x0101, 0x0203}},
      {"a route that goes on",
       [](TestJoin& j) { j.body.remaining = j.body.recorded; },
       {RefusalReason::kRoute}},
  };
  for (const Disagreement& row : rows) {
    SCOPED_TRACE(row.name);
    ServerHarness h;
    const auto good = [&](Rank rank) {
      TestJoin join = h.join_of(rank, 2, true);
      join.body.stream_count = 2;
      return join;
    };
    h.join(kTestSwitch, good(0));
    TestJoin second = good(1);
    second.body.recorded.push_back(kTestSwitch);
    row.change(second);
    h.join(kTestSwitch, second);
    const auto sent = h.take();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].to, kTestSwitch);
    EXPECT_EQ(sent[0].ranks, RankSet::of(second.rank));
    EXPECT_EQ(sent[0].status().code, StatusCode::kRefused);
    EXPECT_EQ(sent[0].status().refusal(), row.refusal);
    EXPECT_EQ(sent[0].status().nonce, second.body.nonce);
    EXPECT_EQ(h.count(ServerCounter::kDropRefused), 1u);
    TestJoin proper = good(0);
    proper.rank = 1;
    proper.body.nonce = nonce_of(1);
    h.join(kTestSwitch, proper);
    EXPECT_EQ(h.take(PacketType::kJoinAck).size(), 2u) << "the job is undisturbed";
  }
}

TEST(Joining, WhoeverIsTurnedAwayIsToldAtMostOnceIn10Ms) {
  ServerHarness h = ServerHarness::behind_switch(2);
  TestJoin twin = h.join_of(1, 2, false);
  twin.body.nonce = 666;
  TestJoin other_world = h.join_of(1, 3, false);
  for (int i = 0; i < 50; ++i) {
    h.join(kStranger, twin);
    h.join(kStranger, other_world);
    h.now += milliseconds(1);
  }
  EXPECT_EQ(h.count(ServerCounter::kDropRankTaken), 50u);
  EXPECT_EQ(h.count(ServerCounter::kDropRefused), 50u);
  EXPECT_EQ(h.count(ServerCounter::kStatusRankTaken), 5u);
  EXPECT_EQ(h.count(ServerCounter::kStatusRefused), 5u);
}

TEST(Joining, APathThatCarriesLessThanAgreedIsRefused) {
  ServerHarness h = ServerHarness::behind_switch(2);
  TestJoin join = h.join_of(1, 2, true);
  join.body.max_value_count = 1;
  h.join(kTestSwitch, join);
  const auto sent = h.take(StatusCode::kRefused);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].status().refusal(),
            (Refusal{RefusalReason::kValueCount, 2, 1, RankSet::first(2)}));
}

TEST(Joining, ARankHeldByAnotherNonceIsTakenAndItsHolderUndisturbed) {
  for (const std::uint8_t flags : {0, int{ATP_FLAG_DIRECT}}) {
    ServerHarness h = ServerHarness::behind_switch(2);
    TestJoin twin = h.join_of(1, 2, false);
    twin.flags = flags;
    twin.body.nonce = 666;
    h.join(kStranger, twin);
    const auto sent = h.take();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].to, kStranger);
    EXPECT_EQ(sent[0].header.flags, flags);
    EXPECT_EQ(sent[0].ranks, ranks({1}));
    EXPECT_EQ(sent[0].status().code, StatusCode::kRankTaken);
    EXPECT_EQ(sent[0].status().nonce, 666u);
    EXPECT_EQ(sent[0].status().about, ranks({1}));
    EXPECT_EQ(sent[0].status().endpoints[0], worker_endpoint(1));
    h.gradient(kTestSwitch, {.ranks = RankSet::first(2)});
    const auto parameters = h.take();
    ASSERT_EQ(parameters.size(), 1u);
    EXPECT_EQ(parameters[0].to, kTestSwitch);
  }
}

TEST(Joining, ARankIsFreeAgainWhenItsLeaseEndsBeforeAllAreIn) {
  ServerHarness h;
  h.join_rank(0, 2, false);
  TestJoin twin = h.join_of(0, 2, false);
  twin.body.nonce = 5;
  h.join(worker_endpoint(7), twin);
  EXPECT_EQ(h.take(StatusCode::kRankTaken).size(), 1u);
  // Two more seconds of another rank keep the job, but not rank 0.
  TestJoin other = h.join_of(1, 2, false);
  other.flags = ATP_FLAG_DIRECT;
  h.advance(seconds(3));
  h.join(worker_endpoint(1), other);
  h.advance(milliseconds(2500));
  h.take();
  h.join(worker_endpoint(7), twin);
  EXPECT_TRUE(h.take(StatusCode::kRankTaken).empty());
  h.join_rank(1, 2, false);
  const auto acks = h.take(PacketType::kJoinAck);
  ASSERT_FALSE(acks.empty());
  EXPECT_EQ(acks[0].ack().nonce, 5u);
}

TEST(Joining, AJobThatNeverBecomesCompleteEndsWithItsLeases) {
  ServerHarness h;
  h.join_rank(0, 2, false);
  h.advance(seconds(4));
  EXPECT_EQ(h.server.job_count(), 1u);
  h.advance(seconds(2));
  EXPECT_EQ(h.server.job_count(), 0u);
  EXPECT_EQ(h.server.next_timeout(), kNever);
}

// --- leases ---

TEST(Leases, ARankIsLostWhenBothHaveEndedAndAllOthersHearIt) {
  ServerHarness h = ServerHarness::behind_switch(3);
  for (int i = 0; i < 6; ++i) {
    h.advance(seconds(1));
    h.join_rank(0, 3, true);
    h.join_rank(1, 3, true);
  }
  const auto sent = h.take(StatusCode::kLeaseEnded);
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0].to, kTestSwitch);
  EXPECT_EQ(sent[0].ranks, ranks({0, 1}));
  EXPECT_EQ(sent[0].status().about, ranks({2}));
  EXPECT_EQ(summary_of(h).lost, ranks({2}));

  h.gradient(kTestSwitch, {.ranks = ranks({0, 1})});
  EXPECT_EQ(h.take(StatusCode::kLeaseEnded).size(), 1u) << "said for a packet that needs it";
  h.gradient(kTestSwitch, {.sequence = 1, .ranks = ranks({0, 1})});
  EXPECT_TRUE(h.take(StatusCode::kLeaseEnded).empty()) << "not for each";
  for (int i = 0; i < 3; ++i) {
    h.advance(seconds(1));
    EXPECT_EQ(h.take(StatusCode::kLeaseEnded).size(), 1u) << "each second while they wait";
    h.join_rank(0, 3, true);
    h.join_rank(1, 3, true);
    h.take();
  }

  h.join(kTestSwitch, h.join_of(2, 3, true));
  const auto late = h.take(PacketType::kStatus);
  ASSERT_EQ(late.size(), 1u) << "a lost rank stays lost";
  EXPECT_EQ(late[0].status().code, StatusCode::kLeaseEnded);
  EXPECT_EQ(late[0].status().nonce, nonce_of(2));
}

TEST(Leases, ARankThatMissedItHearsWhoIsLostWithItsNextJoin) {
  ServerHarness h = ServerHarness::behind_switch(3);
  for (int i = 0; i < 6; ++i) {
    h.advance(seconds(1));
    h.join_rank(0, 3, true);
    h.join_rank(1, 3, true);
  }
  h.take();
  h.join_rank(1, 3, true);
  const auto sent = h.take();
  ASSERT_EQ(sent.size(), 4u) << "acknowledged and told, on both ways";
  for (const std::size_t i : {1, 3}) {
    EXPECT_EQ(sent[i].to, i == 1 ? kTestSwitch : worker_endpoint(1));
    EXPECT_EQ(sent[i].has(ATP_FLAG_DIRECT), i == 3);
    EXPECT_EQ(sent[i].ranks, ranks({1}));
    EXPECT_EQ(sent[i].status().code, StatusCode::kLeaseEnded);
    EXPECT_EQ(sent[i].status().about, ranks({2}));
    EXPECT_EQ(sent[i].status().nonce, 0u);
  }
}

TEST(Leases, WhenOnlyTheTreesHasEndedTheRankIsServedStraight) {
  ServerHarness h = ServerHarness::behind_switch(2);
  for (int i = 0; i < 6; ++i) {
    h.advance(seconds(1));
    h.join_rank(0, 2, true);
    TestJoin straight = h.join_of(1, 2, false);
    straight.flags = ATP_FLAG_DIRECT;
    h.join(worker_endpoint(1), straight);
  }
  h.take();
  EXPECT_EQ(summary_of(h).detached, ranks({1}));
  h.gradient(kTestSwitch, {.ranks = ranks({0})});
  h.gradient(worker_endpoint(1), {.ranks = ranks({1}), .flags = ATP_FLAG_DIRECT});
  const auto sent = h.take(PacketType::kParameter);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].to, kTestSwitch);
  EXPECT_EQ(sent[1].to, worker_endpoint(1));
  // The worker's own number still stands: its JOIN through the tree attaches it.
  h.join(kTestSwitch, h.join_of(1, 2, true));
  EXPECT_TRUE(summary_of(h).detached.empty());
}

TEST(Leases, AJobEndsWhenAllLeasesHave) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.advance(seconds(6));
  EXPECT_EQ(h.server.job_count(), 0u);
  EXPECT_EQ(h.count(ServerCounter::kRanksLost), 2u);
  EXPECT_EQ(h.server.next_timeout(), kNever);
}

TEST(Leases, ThoseThatRanOutWhileTheServerWasStoppedMayBeRenewedFirst) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.advance(seconds(1));
  h.now += seconds(60);
  h.server.handle_timeout(h.now, h.out);
  h.join_rank(0, 2, true);
  h.advance(seconds(1));
  EXPECT_TRUE(summary_of(h).lost.empty());
  h.advance(seconds(2));
  EXPECT_EQ(summary_of(h).lost, ranks({1})) << "had its chance";
}

// --- leaving ---

TEST(Leaving, IsAcknowledgedTheWayItCameAlsoWhenTheJobIsOver) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.leave(kTestSwitch, 0, nonce_of(0));
  h.leave(worker_endpoint(1), 1, nonce_of(1), ATP_FLAG_DIRECT);
  EXPECT_EQ(h.server.job_count(), 0u);
  h.now += milliseconds(50);
  h.leave(worker_endpoint(1), 1, nonce_of(1), ATP_FLAG_DIRECT);
  const auto sent = h.take();
  ASSERT_EQ(sent.size(), 3u);
  for (const Sent& s : sent) {
    EXPECT_EQ(s.status().code, StatusCode::kLeft);
    EXPECT_EQ(s.status().nonce, nonce_of(s.ranks.lowest()));
    EXPECT_EQ(s.status().about, s.ranks);
  }
  EXPECT_EQ(sent[0].to, kTestSwitch);
  EXPECT_EQ(sent[0].header.flags, 0);
  EXPECT_EQ(sent[1].to, worker_endpoint(1));
  EXPECT_EQ(sent[1].header.flags, ATP_FLAG_DIRECT);
  EXPECT_EQ(sent[2].to, worker_endpoint(1));
}

TEST(Leaving, TakesTheRanksNonceAndItsOwnPlace) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.leave(kTestSwitch, 0, 1);
  EXPECT_EQ(h.count(ServerCounter::kDropWrongNonce), 1u);
  h.leave(kStranger, 0, nonce_of(0));
  EXPECT_EQ(h.count(ServerCounter::kDropWrongSource), 1u);
  EXPECT_TRUE(h.take().empty());
  EXPECT_TRUE(summary_of(h).left.empty());
}

TEST(Leaving, WithNothingPendingNobodyElseHearsOfIt) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.gradient(kTestSwitch, {.ranks = RankSet::first(2)});
  h.out.clear();
  h.leave(kTestSwitch, 0, nonce_of(0));
  EXPECT_EQ(h.take().size(), 1u) << "the acknowledgement alone";
  h.now += milliseconds(5);
  h.gradient(kTestSwitch, {.ranks = ranks({0, 1})});
  EXPECT_EQ(h.take(PacketType::kParameter).size(), 1u) << "late sums still hold the rank's bit";
  h.gradient(kTestSwitch, {.sequence = 1, .ranks = ranks({1})});
  const auto sent = h.take(StatusCode::kLeft);
  ASSERT_EQ(sent.size(), 1u) << "the next operation would need it";
  EXPECT_EQ(sent[0].ranks, ranks({1}));
  EXPECT_EQ(sent[0].status().about, ranks({0}));
  EXPECT_EQ(sent[0].status().nonce, 0u);
}

TEST(Leaving, ARankThatLeftIsNeverLost) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.leave(kTestSwitch, 0, nonce_of(0));
  for (int i = 0; i < 7; ++i) {
    h.join_rank(1, 2, true);
    h.advance(seconds(1));
  }
  EXPECT_TRUE(summary_of(h).lost.empty());
  EXPECT_EQ(summary_of(h).left, ranks({0}));
  EXPECT_TRUE(h.take(StatusCode::kLeaseEnded).empty());
  h.join_rank(0, 2, true);
  for (const Sent& s : h.take(PacketType::kStatus)) EXPECT_EQ(s.status().code, StatusCode::kLeft);
}

TEST(Leaving, WithOperationsPendingFailsThemAtTheOthers) {
  ServerHarness h = ServerHarness::behind_switch(3);
  h.gradient(kTestSwitch, {.ranks = ranks({1, 2})});
  h.leave(kTestSwitch, 0, nonce_of(0));
  const auto sent = h.take(StatusCode::kLeft);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].status().nonce, nonce_of(0));
  EXPECT_EQ(sent[1].status().nonce, 0u);
  EXPECT_EQ(sent[1].ranks, ranks({1, 2}));
}

// --- detaching ---

class DetachedRanks : public testing::Test {
 protected:
  void straight(Rank rank, std::uint32_t detachments, bool detached) {
    TestJoin join = h_.join_of(rank, 2, false);
    join.flags = ATP_FLAG_DIRECT;
    join.body.detachments = detachments;
    join.body.detached = detached;
    h_.join(worker_endpoint(rank), join);
  }
  void tree(Rank rank, std::uint32_t detachments, bool detached) {
    TestJoin join = h_.join_of(rank, 2, true);
    join.body.detachments = detachments;
    join.body.detached = detached;
    h_.join(kTestSwitch, join);
  }
  RankSet detached() const { return summary_of(h_).detached; }
  ServerHarness h_ = ServerHarness::behind_switch(2);
};

TEST_F(DetachedRanks, IsSaidByAStraightJoinWithTheMarkAndPassedToTheSwitches) {
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

// With its switch dead the PARAMETER must take the way around.
TEST_F(DetachedRanks, ParametersGoDownTheTreeAndStraightToTheDetached) {
  straight(1, 1, true);
  h_.take();
  h_.gradient(worker_endpoint(1), {.ranks = ranks({1}), .flags = ATP_FLAG_DIRECT});
  h_.gradient(kTestSwitch, {.ranks = ranks({0})});
  const auto sent = h_.take(PacketType::kParameter);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].to, kTestSwitch);
  EXPECT_EQ(sent[1].to, worker_endpoint(1));
  for (const Sent& s : sent) EXPECT_EQ(s.ranks, RankSet::first(2)) << "releases in the switch";
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

// Late packets must not undo what was said after them.
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
  EXPECT_EQ(h_.take(StatusCode::kDetached).size(), 1u) << "said at once: the switch may believe it";
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
