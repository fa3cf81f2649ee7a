#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "atp/core/server/server_harness.h"

// How ranks are lost or leave, and how a job ends (docs/inside/protocol §2, §6).

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Leases, ARankIsLostWhenBothHaveEndedAndAllOthersAreTold) {
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
  EXPECT_EQ(h.summary().lost, ranks({2}));

  h.gradient(kTestSwitch, {.ranks = ranks({0, 1})});
  EXPECT_EQ(h.take(StatusCode::kLeaseEnded).size(), 1u) << "sent for a packet that needs the rank";
  h.gradient(kTestSwitch, {.sequence = 1, .ranks = ranks({0, 1})});
  EXPECT_TRUE(h.take(StatusCode::kLeaseEnded).empty()) << "not for every packet";
  for (int i = 0; i < 3; ++i) {
    h.advance(seconds(1));
    EXPECT_EQ(h.take(StatusCode::kLeaseEnded).size(), 1u) << "once a second while they wait";
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

// The uplink of two ranks is cut; their last JOINs came at different times.
TEST(Leases, RanksThatFellSilentTogetherAreLostTogether) {
  ServerHarness h = ServerHarness::behind_switch(4);
  h.advance(milliseconds(100));
  h.join_rank(2, 4, true);
  h.advance(milliseconds(800));
  h.join_rank(3, 4, true);
  for (int i = 0; i < 10; ++i) {
    h.join_rank(0, 4, true);
    h.join_rank(1, 4, true);
    h.advance(milliseconds(500));
  }
  const auto sent = h.take(StatusCode::kLeaseEnded);
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0].status().about, ranks({2, 3}));
  EXPECT_EQ(h.summary().lost, ranks({2, 3})) << "and nobody who is heard";
}

TEST(Leases, ARankThatMissedItIsToldWhoIsLostAfterItsNextJoin) {
  ServerHarness h = ServerHarness::behind_switch(3);
  for (int i = 0; i < 6; ++i) {
    h.advance(seconds(1));
    h.join_rank(0, 3, true);
    h.join_rank(1, 3, true);
  }
  h.take();
  h.join_rank(1, 3, true);
  const auto sent = h.take();
  ASSERT_EQ(sent.size(), 4u) << "acknowledged and told, on both paths";
  for (const std::size_t i : {1, 3}) {
    EXPECT_EQ(sent[i].to, i == 1 ? kTestSwitch : worker_endpoint(1));
    EXPECT_EQ(sent[i].has(ATP_FLAG_DIRECT), i == 3);
    EXPECT_EQ(sent[i].ranks, ranks({1}));
    EXPECT_EQ(sent[i].status().code, StatusCode::kLeaseEnded);
    EXPECT_EQ(sent[i].status().about, ranks({2}));
    EXPECT_EQ(sent[i].status().nonce, 0u);
  }
}

TEST(Leases, WhenOnlyTheTreesLeaseHasEndedTheRankIsReachedDirectly) {
  ServerHarness h = ServerHarness::behind_switch(2);
  for (int i = 0; i < 6; ++i) {
    h.advance(seconds(1));
    h.join_rank(0, 2, true);
    TestJoin straight = h.join_of(1, 2, false);
    straight.flags = ATP_FLAG_DIRECT;
    h.join(worker_endpoint(1), straight);
  }
  h.take();
  EXPECT_EQ(h.summary().detached, ranks({1}));
  h.gradient(kTestSwitch, {.ranks = ranks({0})});
  h.gradient(worker_endpoint(1), {.ranks = ranks({1}), .flags = ATP_FLAG_DIRECT});
  const auto sent = h.take(PacketType::kParameter);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].to, kTestSwitch);
  EXPECT_EQ(sent[1].to, worker_endpoint(1));
  // The worker's own number still counts, so its JOIN through the tree attaches it.
  h.join(kTestSwitch, h.join_of(1, 2, true));
  EXPECT_TRUE(h.summary().detached.empty());
}

std::vector<std::string> failures_of(const ServerHarness& h) {
  std::vector<std::string> texts;
  for (const JobFailure& one : h.server.failures()) {
    texts.push_back(std::to_string(one.rank) + " " + std::string(one.cause.view()));
  }
  return texts;
}

TEST(Failures, AreRememberedAfterTheirJobHasEnded) {
  ServerHarness h = ServerHarness::behind_switch(3);
  h.leave(kTestSwitch, 1, nonce_of(1), 0, "its process was killed");
  EXPECT_EQ(failures_of(h), std::vector<std::string>{"1 its process was killed"});
  EXPECT_EQ(h.server.failures().begin()->job, kTestJob);
  h.leave(kTestSwitch, 0, nonce_of(0), 0, "rank 1 left the job");
  h.advance(seconds(6));
  EXPECT_EQ(h.server.job_count(), 0u);
  EXPECT_EQ(failures_of(h), std::vector<std::string>{"1 its process was killed"})
      << "the others left because of it";
  EXPECT_EQ(h.count(ServerCounter::kJobsFailed), 1u);
}

TEST(Failures, ALostRankIsOneAndARankThatHasFinishedIsNone) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.leave(kTestSwitch, 0, nonce_of(0));
  EXPECT_TRUE(failures_of(h).empty());
  h.advance(seconds(6));
  EXPECT_EQ(failures_of(h), std::vector<std::string>{"1 "});
}

TEST(Failures, OnlyTheLastOnesAreKept) {
  JobFailures failures;
  for (Rank rank = 0; rank < 20; ++rank) failures.add({.rank = rank});
  EXPECT_EQ(failures.added(), 20u);
  EXPECT_EQ(failures.begin()->rank, 4);
  EXPECT_EQ(failures.end() - failures.begin(), 16);
}

TEST(Leases, AJobEndsWhenAllLeasesHave) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.advance(seconds(6));
  EXPECT_EQ(h.server.job_count(), 0u);
  EXPECT_EQ(h.count(ServerCounter::kRanksLost), 2u);
  EXPECT_EQ(h.server.next_timeout(), kNever);
}

TEST(Leases, ThoseThatEndedWhileTheServerWasStoppedMayBeRenewedFirst) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.advance(seconds(1));
  h.now += seconds(60);
  h.server.handle_timeout(h.now, h.out);
  h.join_rank(0, 2, true);
  h.advance(seconds(1));
  EXPECT_TRUE(h.summary().lost.empty());
  h.advance(seconds(2));
  EXPECT_EQ(h.summary().lost, ranks({1})) << "it could have renewed its lease";
}

TEST(Leaving, IsAcknowledgedOnItsPathEvenWhenTheJobIsOver) {
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

TEST(Leaving, NeedsTheRanksNonceAndItsOwnEndpoint) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.leave(kTestSwitch, 0, 1);
  EXPECT_EQ(h.count(ServerCounter::kDropWrongNonce), 1u);
  h.leave(kStranger, 0, nonce_of(0));
  EXPECT_EQ(h.count(ServerCounter::kDropWrongSource), 1u);
  EXPECT_TRUE(h.take().empty());
  EXPECT_TRUE(h.summary().left.empty());
}

TEST(Leaving, StraightNeedsOnlyTheNonceIfNoStraightJoinHasArrived) {
  ServerHarness h;
  for (const Rank rank : {0, 1}) h.join(kTestSwitch, h.join_of(rank, 2, true));
  h.take();
  h.leave(worker_endpoint(1), 1, 1, ATP_FLAG_DIRECT);
  EXPECT_EQ(h.count(ServerCounter::kDropWrongNonce), 1u);
  h.leave(worker_endpoint(1), 1, nonce_of(1), ATP_FLAG_DIRECT);
  EXPECT_EQ(h.summary().left, ranks({1}));
  const auto sent = h.take(StatusCode::kLeft);
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0].to, worker_endpoint(1)) << "acknowledged where it came from";
}

TEST(Leaving, WithNothingPendingTheOthersAreNotTold) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.gradient(kTestSwitch, {.ranks = RankSet::first(2)});
  h.out.clear();
  h.leave(kTestSwitch, 0, nonce_of(0));
  EXPECT_EQ(h.take().size(), 1u) << "only the acknowledgement";
  h.now += milliseconds(5);
  h.gradient(kTestSwitch, {.ranks = ranks({0, 1})});
  EXPECT_EQ(h.take(PacketType::kParameter).size(), 1u) << "late sums still hold the rank's bit";
  h.gradient(kTestSwitch, {.sequence = 1, .ranks = ranks({1})});
  const auto sent = h.take(StatusCode::kLeft);
  ASSERT_EQ(sent.size(), 1u) << "the next operation needs the rank";
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
  EXPECT_TRUE(h.summary().lost.empty());
  EXPECT_EQ(h.summary().left, ranks({0}));
  EXPECT_TRUE(h.take(StatusCode::kLeaseEnded).empty());
  h.join_rank(0, 2, true);
  for (const Sent& s : h.take(PacketType::kStatus)) EXPECT_EQ(s.status().code, StatusCode::kLeft);
}

TEST(Leaving, ARankThatLeftDoesNotComeBack) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.leave(kTestSwitch, 0, nonce_of(0));
  h.take();
  for (const std::uint64_t nonce : {nonce_of(0), nonce_of(77)}) {
    h.now += milliseconds(20);
    TestJoin again = h.join_of(0, 2, true);
    again.body.nonce = nonce;
    h.join(kTestSwitch, again);
    const auto sent = h.take();
    ASSERT_EQ(sent.size(), 1u) << "and no JOIN_ACK";
    EXPECT_EQ(sent[0].status().code, StatusCode::kLeft);
    EXPECT_EQ(sent[0].status().nonce, nonce);
  }
  EXPECT_EQ(h.count(ServerCounter::kDropRankGone), 2u);
}

TEST(Leaving, WithOperationsPendingFailsThemOnTheOthers) {
  ServerHarness h = ServerHarness::behind_switch(3);
  h.gradient(kTestSwitch, {.ranks = ranks({1, 2})});
  h.leave(kTestSwitch, 0, nonce_of(0));
  const auto sent = h.take(StatusCode::kLeft);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].status().nonce, nonce_of(0));
  EXPECT_EQ(sent[1].status().nonce, 0u);
  EXPECT_EQ(sent[1].ranks, ranks({1, 2}));
}

TEST(Leaving, IsAnnouncedEachSecondWhileAFragmentWaitsForTheRank) {
  ServerHarness h = ServerHarness::behind_switch(3);
  h.gradient(kTestSwitch, {.ranks = ranks({1, 2})});
  h.leave(kTestSwitch, 0, nonce_of(0));
  h.take();
  for (int i = 0; i < 3; ++i) {
    h.advance(seconds(1));
    EXPECT_EQ(h.take(StatusCode::kLeft).size(), 1u) << "second " << i;
    h.join_rank(1, 3, true);
    h.join_rank(2, 3, true);
    h.take();
  }
}

TEST(Leases, AnEndedLeaseIsAnnouncedWithTheRanksEndpoint) {
  ServerHarness h = ServerHarness::behind_switch(3);
  for (int i = 0; i < 6; ++i) {
    h.advance(seconds(1));
    h.join_rank(0, 3, true);
  }
  const auto sent = h.take(StatusCode::kLeaseEnded);
  ASSERT_FALSE(sent.empty());
  const StatusMessage status = sent[0].status();
  EXPECT_EQ(status.about, ranks({1, 2}));
  ASSERT_EQ(status.endpoint_count, 2);
  EXPECT_EQ(status.endpoints[0], worker_endpoint(1));
  EXPECT_EQ(status.endpoints[1], worker_endpoint(2));
}

TEST(Leases, ARankThatLeftWithAllItsSumsIsNotNamedWithTheLost) {
  ServerHarness h = ServerHarness::behind_switch(3);
  h.gradient(kTestSwitch, {.ranks = ranks({0, 1, 2})});
  h.leave(kTestSwitch, 1, nonce_of(1), 0, "its work is done");
  h.take();
  for (int i = 0; i < 6; ++i) {
    h.advance(seconds(1));
    h.join_rank(0, 3, true);
  }
  const auto sent = h.take(PacketType::kStatus);
  const auto of = [&sent](StatusCode code) {
    return std::count_if(sent.begin(), sent.end(), [code](const Sent& s) {
      return s.status().code == code && s.status().nonce == 0;
    });
  };
  EXPECT_GE(of(StatusCode::kLeaseEnded), 1);
  EXPECT_EQ(of(StatusCode::kLeft), 0) << "which might arrive first";
}

TEST(Leaving, NamesTheFirstRankThatAFragmentLacksWithItsCauseNotThoseThatLeaveBecauseOfIt) {
  ServerHarness h = ServerHarness::behind_switch(4);
  h.gradient(kTestSwitch, {.ranks = ranks({0})});
  h.leave(kTestSwitch, 0, nonce_of(0), 0, "its work is done");
  h.leave(worker_endpoint(1), 1, nonce_of(1), ATP_FLAG_DIRECT, "killed by signal 9");
  h.leave(kTestSwitch, 2, nonce_of(2), 0, "rank 1 left");
  h.advance(seconds(1));
  auto sent = h.take(StatusCode::kLeft);
  std::erase_if(sent, [](const Sent& s) { return s.status().nonce != 0; });
  ASSERT_FALSE(sent.empty());
  for (const Sent& s : sent) {
    EXPECT_EQ(s.status().about, ranks({1}));
    EXPECT_EQ(s.status().cause.view(), "killed by signal 9");
    EXPECT_EQ(s.status().endpoints[0], worker_endpoint(1));
  }
}

// Ranks that fail because another one is gone end without a LEAVE if they are killed, so their
// leases end. A rank that has missed the first news must not blame them.
TEST(Leaving, WhatHappenedFirstIsSaidInPlaceOfWhatFollowed) {
  struct Case {
    const char* name;
    bool leaves_first;
    StatusCode said;
    RankSet about;
  };
  const Case cases[] = {
      {"rank 1 leaves, then 2 and 3 are lost", true, StatusCode::kLeft, ranks({1})},
      {"ranks 2 and 3 are lost, then 1 leaves", false, StatusCode::kLeaseEnded, ranks({2, 3})},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    ServerHarness h = ServerHarness::behind_switch(4);
    h.gradient(kTestSwitch, {.ranks = ranks({0})});
    const auto leave = [&] { h.leave(kTestSwitch, 1, nonce_of(1), 0, "killed by signal 9"); };
    if (c.leaves_first) leave();
    for (int i = 0; i < 6; ++i) {
      h.advance(seconds(1));
      h.join_rank(0, 4, true);
      if (!c.leaves_first) h.join_rank(1, 4, true);
    }
    ASSERT_EQ(h.summary().lost, ranks({2, 3}));
    if (!c.leaves_first) leave();
    h.take();
    h.advance(seconds(1));
    h.join_rank(0, 4, true);
    auto sent = h.take(PacketType::kStatus);
    std::erase_if(sent, [](const Sent& s) {
      return s.status().nonce != 0 || s.status().code == StatusCode::kWaitingFor;
    });
    EXPECT_EQ(sent.size(), 3u) << "announced, and twice after a JOIN";
    for (const Sent& s : sent) {
      EXPECT_EQ(s.status().code, c.said);
      EXPECT_EQ(s.status().about, c.about);
    }
  }
}

TEST(Leaving, ACauseAloneFailsNoRankThatHasAllSums) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.gradient(kTestSwitch, {.ranks = ranks({0, 1})});
  h.take();
  h.leave(kTestSwitch, 1, nonce_of(1), 0, "its process exited with code 0");
  h.advance(seconds(1));
  for (const Sent& s : h.take(StatusCode::kLeft)) EXPECT_EQ(s.status().nonce, nonce_of(1));
  h.gradient(kTestSwitch, {.sequence = 1, .ranks = ranks({0})});
  const auto sent = h.take(StatusCode::kLeft);
  ASSERT_EQ(sent.size(), 1u) << "with the first fragment that needs the rank";
  EXPECT_EQ(sent[0].status().cause.view(), "its process exited with code 0");
}

}  // namespace
}  // namespace atp
