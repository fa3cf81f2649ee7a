#include <gmock/gmock.h>

#include <functional>

#include "atp/core/dataplane/switch_rig_test.h"

// Joining, leaving and detaching at a switch (docs/inside/protocol §2).

namespace atp::rig {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Endpoint kOtherServer = Endpoint::ipv4(10, 0, 1, 2, 5500);

TEST(SwitchJoin, AJoinGoesToTheNextHopWithTheSwitchRecorded) {
  Rig rig;
  const Join join_up = relayed(rig.in(child(2), join(2)));
  EXPECT_THAT(join_up.remaining.hops(), ElementsAre(kServer));
  EXPECT_THAT(join_up.recorded.hops(), ElementsAre(kOwn));
  EXPECT_EQ(join_up.max_value_count, 8) << "lowered to what an aggregator holds";
  Join expected = join_body(2);
  expected.max_value_count = 8;
  expected.remaining.pop_front();
  expected.recorded.push_back(kOwn);
  EXPECT_EQ(join_up, expected) << "everything else passes unchanged";
  EXPECT_EQ(rig.node.trees(), 1u);
}

TEST(SwitchJoin, ASmallerKPassesUnchanged) {
  Rig rig;
  Join body = join_body(0);
  body.max_value_count = 3;
  EXPECT_EQ(relayed(rig.in(child(0), join(0, body))).max_value_count, 3);
}

TEST(SwitchJoin, ALongRouteKeepsItsOrder) {
  Rig rig;
  Join body = join_body(0);
  body.remaining.push_back(kStranger);
  body.recorded.push_back(kStranger);
  const Join join_up = relayed(rig.in(child(0), join(0, body)));
  EXPECT_THAT(join_up.remaining.hops(), ElementsAre(kServer, kStranger));
  EXPECT_THAT(join_up.recorded.hops(), ElementsAre(kStranger, kOwn));
}

TEST(SwitchJoin, StreamRangesSideBySideAreTreesOfTheirOwn) {
  Rig rig;
  rig.join_all();
  Join body = join_body(0);
  body.first_stream = 4;
  body.nonce = 555;
  relayed(rig.in(child(3), join(0, body)));
  EXPECT_EQ(rig.node.trees(), 2u);
}

TEST(SwitchJoin, TheSameSocketMayComeByAnotherPath) {
  Rig rig;
  rig.join_all();
  relayed(rig.in(kStranger, join(1)));
  rig.in(child(1), gradient(ranks({1}), 0, 1));
  EXPECT_EQ(rig.count(SwitchCounter::kDropUnknownChild), 1u);
  rig.in(kStranger, gradient(ranks({1}), 0, 1));
  EXPECT_EQ(rig.count(SwitchCounter::kGradientsSummed), 1u);
}

TEST(SwitchJoin, AJoinOrLeaveWithDirectIsDropped) {
  Rig rig;
  EXPECT_THAT(rig.in(child(0), join(0, join_body(0), ATP_FLAG_DIRECT)), IsEmpty());
  EXPECT_EQ(rig.count(SwitchCounter::kDropStraight), 1u);
  EXPECT_EQ(rig.node.trees(), 0u);
}

TEST(SwitchJoin, AJoinMarkedDetachedLeavesTheMaskAndAnUnmarkedOneReturns) {
  Rig rig;
  rig.join_all();
  Join body = join_body(3);
  body.detached = true;
  body.detachments = 1;
  relayed(rig.in(child(3), join(3, body)));
  rig.in(child(0), gradient(ranks({0}), 0, 1));
  rig.in(child(1), gradient(ranks({1}), 0, 1));
  EXPECT_THAT(rig.in(child(2), gradient(ranks({2}), 0, 1)), SizeIs(1)) << "complete without 3";
  const auto passed = rig.in(child(3), gradient(ranks({3}), 0, 1));
  ASSERT_THAT(receivers(passed), ElementsAre(kServer));
  EXPECT_TRUE(passed[0].view().has(ATP_FLAG_DIRECT));

  body.detached = false;
  relayed(rig.in(child(3), join(3, body)));
  EXPECT_THAT(rig.in(child(3), gradient(ranks({3}), 1, 1)), IsEmpty()) << "aggregated again";
}

TEST(SwitchJoin, StatusDetachedTakesARankOffTheMaskUnlessItCameBack) {
  Rig rig;
  rig.join_all();
  StatusMessage detached;
  detached.code = StatusCode::kDetached;
  detached.about = ranks({1, 3});
  detached.numbers[0] = 2;
  detached.numbers[1] = 5;
  EXPECT_THAT(rig.in(kServer, status(RankSet::first(4), detached)), SizeIs(4));
  EXPECT_TRUE(rig.in(child(1), gradient(ranks({1}), 0, 1)).at(0).view().has(ATP_FLAG_DIRECT));

  Join back = join_body(1);
  back.detachments = 2;
  relayed(rig.in(child(1), join(1, back)));
  rig.in(kServer, status(RankSet::first(4), detached));  // a late copy
  EXPECT_THAT(rig.in(child(1), gradient(ranks({1}), 1, 1)), IsEmpty());
  EXPECT_TRUE(rig.in(child(3), gradient(ranks({3}), 1, 1)).at(0).view().has(ATP_FLAG_DIRECT));

  Join old = join_body(3);
  old.detachments = 4;  // the numbers are in rank order, and rank 3's is 5
  relayed(rig.in(child(3), join(3, old)));
  EXPECT_TRUE(rig.in(child(3), gradient(ranks({3}), 2, 1)).at(0).view().has(ATP_FLAG_DIRECT));
}

TEST(SwitchJoin, EveryRepeatedLeaveGoesUp) {
  Rig rig;
  rig.join_all();
  for (int i = 0; i < 3; ++i) {
    const auto sent = rig.in(child(2), leave(2, nonce(2)));
    ASSERT_THAT(receivers(sent), ElementsAre(kServer));
    EXPECT_EQ(sent[0].bytes, one_hop_on(leave(2, nonce(2))));
    StatusMessage left;
    left.code = StatusCode::kLeft;
    left.nonce = nonce(2);
    left.about = ranks({2});
    EXPECT_THAT(receivers(rig.in(kServer, status(ranks({2}), left))), ElementsAre(child(2)));
  }
  for (const unsigned rank : {0, 1}) {
    rig.in(child(rank), gradient(RankSet::of(static_cast<Rank>(rank)), 0, 1));
  }
  EXPECT_THAT(rig.in(child(3), gradient(ranks({3}), 0, 1)), SizeIs(1))
      << "the sum does not wait for rank 2";
}

TEST(SwitchJoin, ARankThatHasLeftMayJoinAgainAtOnce) {
  Rig rig;
  rig.join_all();
  rig.in(child(2), leave(2, nonce(2)));
  Join next = join_body(2);
  next.nonce = 4242;
  relayed(rig.in(kStranger, join(2, next)));
  rig.accept(2, 4242);
  EXPECT_THAT(rig.in(kStranger, gradient(ranks({2}), 0, 1)), IsEmpty());
  EXPECT_EQ(rig.count(SwitchCounter::kGradientsSummed), 1u);
}

TEST(SwitchJoin, StatusLeftCountsOnlyForTheSocketThatLeft) {
  Rig rig;
  rig.join_all();
  StatusMessage left;
  left.code = StatusCode::kLeft;
  left.about = ranks({2});
  left.nonce = nonce(2) + 1;
  rig.in(kServer, status(RankSet::first(4), left));
  for (const unsigned rank : {0, 1}) {
    rig.in(child(rank), gradient(RankSet::of(static_cast<Rank>(rank)), 0, 1));
  }
  EXPECT_THAT(rig.in(child(3), gradient(ranks({3}), 0, 1)), IsEmpty())
      << "the sum still waits for rank 2";
  left.nonce = nonce(2);
  EXPECT_THAT(rig.in(kServer, status(RankSet::first(4), left)), SizeIs(4));
  EXPECT_THAT(rig.in(child(3), gradient(ranks({3}), 0, 1)), SizeIs(1));
}

TEST(SwitchJoin, ALeaveOfAnotherSocketIsDropped) {
  Rig rig;
  rig.join_all();
  EXPECT_THAT(rig.in(child(2), leave(2, 1)), IsEmpty());
  EXPECT_EQ(rig.count(SwitchCounter::kDropWrongNonce), 1u);
  const auto sent = rig.in(child(1), leave(2, nonce(2)));
  ASSERT_THAT(receivers(sent), ElementsAre(child(1)));
  EXPECT_EQ(sent[0].status().code, StatusCode::kUnknownJob);
  EXPECT_EQ(rig.count(SwitchCounter::kDropUnknownChild), 1u);
}

TEST(SwitchJoin, ALeaveAfterTheTablesWereLostIsAnsweredAsAnUnknownJob) {
  Rig rig;
  const auto sent = rig.in(child(2), leave(2, nonce(2)));
  ASSERT_THAT(receivers(sent), ElementsAre(child(2)));
  EXPECT_EQ(sent[0].status().code, StatusCode::kUnknownJob);
  EXPECT_EQ(sent[0].view().ranks, ranks({2}));
}

TEST(SwitchJoin, ALeaseEndsUnlessRefreshedAndTheJobMayJoinAgain) {
  Rig rig;
  rig.join_all();
  for (int second = 0; second < 20; ++second) {
    rig.in(child(0), join(0));
    rig.wait(1s);
  }
  EXPECT_EQ(rig.count(SwitchCounter::kLeasesEnded), 3u);
  EXPECT_THAT(rig.in(child(0), gradient(ranks({0}), 0, 1)), SizeIs(1))
      << "complete with rank 0 alone";
  rig.wait(10s);
  EXPECT_EQ(rig.node.trees(), 0u);
  EXPECT_EQ(rig.count(SwitchCounter::kTreesDropped), 1u);
  EXPECT_EQ(rig.node.next_timeout(), kNever) << "an idle switch sets no timer";
  rig.join_all();
  EXPECT_THAT(rig.in(child(0), gradient(ranks({0}), 50, 1)), IsEmpty());
}

TEST(SwitchJoin, TheLeaseOfARankThatHasLeftDoesNotCountAsEnded) {
  Rig rig;
  rig.join_all();
  rig.in(child(2), leave(2, nonce(2)));
  rig.wait(10s);
  EXPECT_EQ(rig.count(SwitchCounter::kLeasesEnded), 3u);
}

TEST(SwitchJoin, ASwitchAnswersAreYouThereToAnybody) {
  Rig rig;
  StatusMessage question;
  question.code = StatusCode::kAreYouThere;
  question.nonce = 321;
  const auto sent = rig.in(kStranger, status(ranks({0}), question));
  ASSERT_THAT(receivers(sent), ElementsAre(kStranger));
  EXPECT_EQ(sent[0].status().code, StatusCode::kHere);
  EXPECT_EQ(sent[0].status().nonce, 321u);
}

// Somebody who sends JOINs for ranks that are behind other switches must gain nothing.
TEST(SwitchJoin, ARankIsNoMemberUntilItsOwnJoinAckComes) {
  struct Case {
    const char* name;
    std::function<void(Rig&)> then;
    bool is_member;
  };
  const auto turn_down = [](StatusCode code, std::uint64_t with_nonce) {
    return [=](Rig& rig) {
      StatusMessage answer;
      answer.code = code;
      answer.nonce = with_nonce;
      answer.about = ranks({3});
      EXPECT_THAT(receivers(rig.in(kServer, status(ranks({3}), answer))), ElementsAre(kStranger))
          << "the answer to its JOIN";
    };
  };
  const Case cases[] = {
      {"its JOIN is not answered", [](Rig&) {}, false},
      {"its JOIN is acknowledged", [](Rig& rig) { rig.accept(3, nonce(3)); }, true},
      {"another socket's JOIN is acknowledged", [](Rig& rig) { rig.accept(3, 4242); }, false},
      {"another rank's JOIN is acknowledged", [](Rig& rig) { rig.accept(2, nonce(3)); }, false},
      {"somebody acknowledges it who is not the parent",
       [](Rig& rig) {
         JoinAck ack = ack_body();
         ack.nonce = nonce(3);
         rig.in(kStranger, join_ack(ranks({3}), ack));
       },
       false},
      {"its rank is taken", turn_down(StatusCode::kRankTaken, nonce(3)), false},
      {"it is refused", turn_down(StatusCode::kRefused, nonce(3)), false},
      {"it is refused, and an acknowledgement of it comes late",
       [&](Rig& rig) {
         turn_down(StatusCode::kRefused, nonce(3))(rig);
         rig.accept(3, nonce(3));
       },
       false},
      {"it is acknowledged, and later refused",
       [&](Rig& rig) {
         rig.accept(3, nonce(3));
         turn_down(StatusCode::kRefused, nonce(3))(rig);
       },
       false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Rig rig;
    for (unsigned rank = 0; rank < 3; ++rank) {
      rig.in(child(rank), join(rank));
      rig.accept(rank, nonce(rank));
    }
    relayed(rig.in(kStranger, join(3)));
    c.then(rig);
    for (unsigned rank = 0; rank < 2; ++rank) {
      rig.in(child(rank), gradient(RankSet::of(static_cast<Rank>(rank)), 0, 1));
    }
    EXPECT_EQ(rig.in(child(2), gradient(ranks({2}), 0, 1)).empty(), c.is_member)
        << "whether the sum waits for rank 3";
    EXPECT_EQ(rig.in(kStranger, gradient(ranks({3}), 1, 1)).empty(), c.is_member)
        << "whether its GRADIENT is added, or answered with unknown job";
    EXPECT_EQ(rig.in(kServer, parameter(RankSet::first(4), 0)).size(), c.is_member ? 4u : 3u);
    EXPECT_EQ(rig.in(kServer, bare(PacketType::kNack, ranks({3}), 7)).size(), c.is_member);
    EXPECT_EQ(rig.in(kServer, bare(PacketType::kFlush, ranks({3}), 7)).size(), c.is_member);
  }
}

TEST(SwitchJoin, AnApplicantDoesNotKeepTheRankFromItsOwner) {
  Rig rig;
  Join stranger = join_body(0);
  for (stranger.nonce = 5000; stranger.nonce < 5100; ++stranger.nonce) {
    relayed(rig.in(kStranger, join(0, stranger)));
    if (stranger.nonce == 5098) relayed(rig.in(child(0), join(0)));
  }
  EXPECT_THAT(receivers(rig.accept(0, nonce(0))), ElementsAre(child(0)));
  EXPECT_THAT(receivers(rig.in(kServer, parameter(ranks({0}), 0))), ElementsAre(child(0)));
  const auto again = rig.in(kStranger, join(0, stranger));
  EXPECT_EQ(again.at(0).status().code, StatusCode::kRankTaken) << "now it is held";
}

// Before all have joined, the ranks are applicants, and learn for whom the server waits.
TEST(SwitchJoin, WhatGoesToAllReachesApplicantsOnlyWhileTheJobIsJoining) {
  Rig rig;
  rig.in(child(0), join(0));
  rig.in(child(1), join(1));
  StatusMessage waiting;
  waiting.code = StatusCode::kWaitingFor;
  waiting.about = ranks({2, 3});
  EXPECT_THAT(receivers(rig.in(kServer, status(RankSet::first(4), waiting))),
              ElementsAre(child(0), child(1)));
  rig.accept(0, nonce(0));
  EXPECT_THAT(receivers(rig.in(kServer, status(RankSet::first(4), waiting))),
              ElementsAre(child(0)));
}

// A child switch that relays JOINs must learn of each one that is turned down: it has noted them.
TEST(SwitchJoin, EachJoinOfAChildIsAnsweredButAStrangersOnlyOncePer10Ms) {
  Rig rig;
  rig.join_all();
  Join twin = join_body(0);
  std::size_t to_child = 0;
  std::size_t to_stranger = 0;
  for (twin.nonce = 5000; twin.nonce < 5100; ++twin.nonce) {
    to_child += rig.in(child(1), join(0, twin)).size();
    to_stranger += rig.in(kStranger, join(0, twin)).size();
  }
  EXPECT_EQ(to_child, 100u);
  EXPECT_EQ(to_stranger, 1u);
}

struct Question {
  const char* name;
  std::uint16_t for_node;  // how many switches pass it on
  std::uint8_t hops;
  Endpoint from;
  RankSet of;
  Endpoint to;  // who gets the one packet that comes out
};

TEST(SwitchJoin, AQuestionIsAnsweredByTheNodeThatItIsForAndNeverByTwo) {
  const Question kQuestions[] = {
      {"for the switch itself", 0, ATP_HOPS, child(0), ranks({0}), child(0)},
      {"for its parent", 1, ATP_HOPS, child(0), ranks({0}), kServer},
      {"for a node far above", 3, ATP_HOPS, child(0), ranks({0}), kServer},
      {"for this switch, the second on the route", 1, ATP_HOPS - 1, child(0), ranks({0}), child(0)},
      {"of a stranger, for a node above", 1, ATP_HOPS, kStranger, ranks({0}), kStranger},
      {"of another rank's child", 1, ATP_HOPS, child(1), ranks({0}), child(1)},
      {"of no rank", 1, ATP_HOPS, child(0), {}, child(0)},
      {"of more switches than a route has", 9999, ATP_HOPS - 8, child(0), ranks({0}), child(0)},
      {"with more hops than it may have", 1, 255, child(0), ranks({0}), child(0)},
  };
  for (const Question& c : kQuestions) {
    SCOPED_TRACE(c.name);
    Rig rig;
    rig.join_all();
    StatusMessage question;
    question.code = StatusCode::kAreYouThere;
    question.reason = c.for_node;
    question.nonce = 321;
    Bytes bytes = status(c.of, question);
    bytes[ATP_AT_HOPS] = c.hops;
    const auto sent = rig.in(c.from, bytes);
    ASSERT_THAT(receivers(sent), ElementsAre(c.to));
    EXPECT_EQ(sent[0].status().nonce, 321u);
    EXPECT_EQ(sent[0].bytes.size(), bytes.size()) << "nobody gains by forging an address";
    EXPECT_EQ(sent[0].status().code,
              c.to == kServer ? StatusCode::kAreYouThere : StatusCode::kHere);
    EXPECT_EQ(sent[0].view().header.hops, c.to == kServer ? c.hops - 1 : ATP_HOPS);
  }
}

// All ranks of a rack ask at once when the switch above is dead.
TEST(SwitchJoin, TheAnswersToMembersAreNotPacedAsThoseToStrangersAre) {
  Rig rig;
  rig.join_all();
  StatusMessage question;
  question.code = StatusCode::kAreYouThere;
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(rig.in(child(0), status(ranks({0}), question)), SizeIs(1));
  }
  EXPECT_THAT(rig.in(kStranger, status(ranks({0}), question)), SizeIs(1));
  EXPECT_THAT(rig.in(kStranger, status(ranks({0}), question)), IsEmpty());
}

TEST(SwitchJoin, AParentThatAnswersNoneOfSeveralQuestionsIsSilentUntilAnythingComesFromIt) {
  Rig rig;
  rig.join_all();
  const auto is_silent = [&] {
    bool silent = false;
    rig.node.for_each_tree(
        [&](const Tree& tree, const atp_share&) { silent = tree.parent_is_silent(rig.now); });
    return silent;
  };
  StatusMessage question;
  question.code = StatusCode::kAreYouThere;
  question.reason = 1;
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(is_silent());
    rig.in(child(0), status(ranks({0}), question));
    rig.wait(50ms);
  }
  EXPECT_TRUE(is_silent());
  question.code = StatusCode::kHere;
  rig.in(kServer, status(ranks({0}), question));
  EXPECT_FALSE(is_silent());
}

TEST(SwitchJoin, AJoinAckAboutAnotherRangeOrWorldIsPassedButIgnored) {
  for (const auto change :
       {+[](JoinAck& a) { a.first_stream = 1; }, +[](JoinAck& a) { a.stream_count = 3; },
        +[](JoinAck& a) { a.world_size = 5; }}) {
    Rig rig;
    rig.in(child(0), join(0));
    JoinAck ack = ack_body();
    ack.nonce = nonce(0);
    ack.value_count = kValues - 1;
    change(ack);
    EXPECT_THAT(rig.in(kServer, join_ack(ranks({0}), ack)), SizeIs(1)) << "it is passed on";
    EXPECT_THAT(rig.in(kServer, parameter(ranks({0}), 0)), IsEmpty()) << "it makes no member";
  }
}

TEST(SwitchJoin, TheLeaseIsTheServers) {
  Rig rig;
  rig.join_all();
  JoinAck ack = ack_body();
  ack.lease_ms = 60'000;
  rig.in(kServer, join_ack(RankSet::first(4), ack));
  rig.in(child(0), join(0));
  rig.wait(30s);
  EXPECT_EQ(rig.count(SwitchCounter::kLeasesEnded), 3u) << "granted before the server's JOIN_ACK";
  EXPECT_EQ(rig.node.trees(), 1u);
}

StatusMessage only_prove(const std::vector<Sent>& sent, const Endpoint& to) {
  EXPECT_EQ(receivers(sent), std::vector<Endpoint>{to});
  const StatusMessage asked = sent.at(0).status();
  EXPECT_EQ(asked.code, StatusCode::kProve);
  return asked;
}

TEST(SwitchJoin, AJoinWithoutARightProofIsAskedForOneAndGoesNowhere) {
  Rig rig;
  Join body = join_body(2);
  for (const std::uint64_t proof : {std::uint64_t{0}, proof_of(rig.secret, kJob, child(1))}) {
    body.proof = proof;
    const StatusMessage asked = only_prove(rig.in_as_is(child(2), join(2, body)), child(2));
    EXPECT_EQ(asked, StatusMessage::prove(asked.proof(), ranks({2}), nonce(2)));
    EXPECT_EQ(rig.node.trees(), 0u);
    body.proof = asked.proof();
  }
  EXPECT_EQ(rig.count(SwitchCounter::kJoinsUnproven), 2u);
  relayed(rig.in_as_is(child(2), join(2, body)));
}

// A parent asks the switch; only the worker can send another JOIN.
TEST(SwitchJoin, AParentsQuestionForAProofGoesOnAsTheSwitchsOwn) {
  Rig rig;
  const auto asked = StatusMessage::prove(99, ranks({2}), nonce(2));
  EXPECT_EQ(relayed(rig.in(child(2), join(2))).proof, 0u);
  EXPECT_TRUE(
      rig.in(kServer, status(ranks({2}), StatusMessage::prove(7, ranks({2}), 4242))).empty())
      << "it answers no JOIN that the switch has passed on";
  EXPECT_EQ(relayed(rig.in(child(2), join(2))).proof, 0u);
  const StatusMessage own = only_prove(rig.in(kServer, status(ranks({2}), asked)), child(2));
  EXPECT_EQ(own, StatusMessage::prove(proof_of(rig.secret, kJob, child(2)), ranks({2}), nonce(2)));
  EXPECT_EQ(relayed(rig.in(child(2), join(2))).proof, 99u);
  EXPECT_EQ(relayed(rig.in(child(0), join(0))).proof, 99u) << "for all children";
  rig.accept(2, nonce(2));
  const StatusMessage anew = only_prove(
      rig.in(kServer, status(ranks({2}), StatusMessage::prove(5, ranks({2}), nonce(2)))), child(2));
  EXPECT_EQ(anew.nonce, nonce(2)) << "a member's JOIN, too: the parent has restarted";
  EXPECT_EQ(relayed(rig.in(child(2), join(2))).proof, 5u);
}

TEST(SwitchJoin, WhatAParentHasToldIsNotShownToAnother) {
  Rig rig;
  rig.in(child(2), join(2));
  rig.in(kServer, status(ranks({2}), StatusMessage::prove(99, ranks({2}), nonce(2))));
  Join body = join_body(2);
  body.remaining.pop_front();
  body.remaining.pop_front();
  body.remaining.push_back(kOwn);
  body.remaining.push_back(kOtherServer);
  const auto sent = rig.in(child(2), join(2, body));
  ASSERT_EQ(receivers(sent), std::vector<Endpoint>{kOtherServer});
  EXPECT_EQ(Join::read(sent[0].view().body)->proof, 0u);
}

}  // namespace
}  // namespace atp::rig
