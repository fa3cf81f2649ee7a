#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "atp/core/server/server_harness.h"

// How the ranks of a job join (docs/inside/protocol §2).

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Joining, AllAreAnsweredOnThePathsOfTheirJoinsOnceTheLastHasJoined) {
  ServerHarness h;
  h.join_rank(0, 2, true);
  EXPECT_TRUE(h.take().empty());
  h.join(kTestSwitch, h.join_of(1, 2, true));
  const auto sent = h.take();
  ASSERT_EQ(sent.size(), 3u) << "rank 0 by both paths, rank 1 through the tree";
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

TEST(Joining, TheAnswerSaysHowFragmentsArePlaced) {
  for (const std::uint16_t linear : {0, 300}) {
    ServerConfig config = ServerHarness::small_config();
    config.placement.linear_aggregators = linear;
    ServerHarness h(config);
    h.join_rank(0, 1, false);
    EXPECT_EQ(h.take()[0].ack().linear_aggregators, linear);
  }
}

TEST(Joining, TheSmallestValueCountWins) {
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

TEST(Joining, AStraightJoinAloneCountsIfDetachedOrIfTheTreeIsSilentForALease) {
  ServerHarness h;
  TestJoin join = h.join_of(0, 1, false);
  join.flags = ATP_FLAG_DIRECT;
  h.join(worker_endpoint(0), join);
  EXPECT_TRUE(h.take(PacketType::kJoinAck).empty()) << "the tree's path may carry less";
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

TEST(Joining, AfterASecondTheAnswerToAJoinNamesTheMissing) {
  ServerHarness h;
  h.join_rank(0, 3, true);
  h.join_rank(2, 3, true);
  EXPECT_TRUE(h.take().empty());
  h.advance(milliseconds(1100));
  h.join_rank(0, 3, true);
  h.join_rank(0, 3, true);
  const auto sent = h.take(StatusCode::kWaitingFor);
  ASSERT_EQ(sent.size(), 2u) << "at most one per second, rank and path";
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

TEST(Joining, AJobThatNeverBecomesCompleteEndsWithItsLeases) {
  ServerHarness h;
  h.join_rank(0, 2, false);
  h.advance(seconds(4));
  EXPECT_EQ(h.server.job_count(), 1u);
  h.advance(seconds(2));
  EXPECT_EQ(h.server.job_count(), 0u);
  EXPECT_EQ(h.server.next_timeout(), kNever);
}

// What the waiting ranks are told about refused ones.
std::vector<Sent> told_of_refused(ServerHarness& h) {
  auto sent = h.take(StatusCode::kRefused);
  std::erase_if(sent, [](const Sent& s) { return s.status().nonce != 0; });
  return sent;
}

TEST(Joining, WaitingRanksAreToldWhyAnotherIsRefused) {
  ServerHarness h;
  h.join_rank(0, 4, true);
  h.take();
  TestJoin other = h.join_of(3, 8, false);
  other.flags = ATP_FLAG_DIRECT;
  h.join(worker_endpoint(3), other);
  const auto told = told_of_refused(h);
  ASSERT_FALSE(told.empty());
  for (const Sent& s : told) {
    EXPECT_EQ(s.ranks, ranks({0}));
    EXPECT_EQ(s.status().about, ranks({3}));
    EXPECT_EQ(s.status().refusal(), (Refusal{RefusalReason::kWorldSize, 4, 8, ranks({0})}));
  }
  h.join(worker_endpoint(3), other);
  EXPECT_TRUE(told_of_refused(h).empty()) << "at most once a second";
}

TEST(Joining, WaitingRanksAreToldOfOneWhoseStreamsOverlapTheirsButBeginElsewhere) {
  ServerHarness h;
  h.stream_count = 2;
  h.join_rank(0, 2, true);
  h.take();
  TestJoin other = h.join_of(1, 2, true);
  other.body.first_stream = 1;
  other.body.stream_count = 3;
  h.join(kTestSwitch, other);
  const auto told = told_of_refused(h);
  ASSERT_FALSE(told.empty());
  for (const Sent& s : told) {
    EXPECT_EQ(s.ranks, ranks({0}));
    EXPECT_EQ(s.status().about, ranks({1}));
    EXPECT_EQ(s.status().refusal(), (Refusal{RefusalReason::kStreams, streams_number(0, 2),
                                             streams_number(1, 3), ranks({0})}));
  }
}

TEST(Joining, TwoIncarnationsThatWaitForEachOthersRanksAreTold) {
  ServerHarness h;
  h.join_rank(0, 2, true);
  TestJoin other = h.join_of(1, 2, true);
  other.job.incarnation += 5;
  h.join(kTestSwitch, other);
  h.take();
  h.advance(seconds(1));
  h.join(kTestSwitch, other);
  h.join_rank(0, 2, true);
  RankSet about;
  for (const Sent& s : told_of_refused(h)) {
    EXPECT_EQ(s.status().reason, static_cast<std::uint16_t>(RefusalReason::kIncarnation));
    about |= s.status().about;
    const bool is_own = s.header.incarnation == kTestJob.incarnation;
    EXPECT_EQ(s.status().numbers[0], kTestJob.incarnation + (is_own ? 0 : 5));
    EXPECT_EQ(s.status().numbers[1], kTestJob.incarnation + (is_own ? 5 : 0));
  }
  EXPECT_EQ(about, ranks({0, 1})) << "each is told about the other";
}

TEST(Joining, AnotherTenantsJobOfTheSameNumberIsNoIncarnationOfIt) {
  ServerHarness h;
  h.join_rank(0, 2, true);
  TestJoin other = h.join_of(1, 2, true);
  other.job = {kTestJob.job, kTestJob.incarnation + 5, 3};
  h.join(kTestSwitch, other);
  h.take();
  h.advance(seconds(1));
  h.join(kTestSwitch, other);
  h.join_rank(0, 2, true);
  EXPECT_EQ(h.server.job_count(), 2u);
  EXPECT_TRUE(told_of_refused(h).empty());
}

// Anybody can forge an address. What is sent there may be no more than one answer, and no larger.
TEST(Joining, AJoinWithoutARightProofIsAskedForOneAndChangesNothing) {
  struct Case {
    const char* name;
    std::function<std::uint64_t(const ServerHarness&)> proof;
  };
  const Endpoint own = worker_endpoint(0);
  const auto with = [](const JobKey& job, const Endpoint& sender) {
    return [=](const ServerHarness& h) { return proof_of(h.secret, job, sender); };
  };
  Endpoint other_port = own;
  ++other_port.port;
  const JobKey other_life{kTestJob.job, kTestJob.incarnation + 1};
  const Case cases[] = {
      {"none", [](const ServerHarness&) { return std::uint64_t{0}; }},
      {"of another address", with(kTestJob, worker_endpoint(1))},
      {"of another port", with(kTestJob, other_port)},
      {"of another job", with({kTestJob.job + 1, kTestJob.incarnation}, own)},
      {"of another incarnation", with(other_life, own)},
      {"of another tenant", with({kTestJob.job, kTestJob.incarnation, 1}, own)},
      {"of another node",
       [&](const ServerHarness& h) {
         return proof_of({h.secret[0], h.secret[1] + 1}, kTestJob, own);
       }},
  };
  for (const Case& c : cases) {
    for (const bool straight : {false, true}) {
      SCOPED_TRACE(std::string(c.name) + (straight ? ", straight" : ", through the tree"));
      ServerHarness h;
      TestJoin join = h.join_of(0, 1, false);
      join.body.proof = c.proof(h);
      join.flags = straight ? ATP_FLAG_DIRECT : 0;
      h.receive_as_is(own, h.bytes_of(join));
      EXPECT_EQ(h.server.job_count(), 0u);
      EXPECT_EQ(h.count(ServerCounter::kJoinsUnproven), 1u);
      const auto sent = h.take();
      ASSERT_EQ(sent.size(), 1u);
      EXPECT_EQ(sent[0].to, own);
      EXPECT_EQ(sent[0].has(ATP_FLAG_DIRECT), straight);
      const StatusMessage asked = sent[0].status();
      EXPECT_EQ(asked, StatusMessage::prove(asked.proof(), RankSet::of(0), nonce_of(0)));
      join.body.proof = asked.proof();
      h.receive_as_is(own, h.bytes_of(join));
      EXPECT_EQ(h.server.job_count(), 1u) << "now it counts";
    }
  }
}

TEST(Joining, TheJoinOfAMemberAlsoNeedsAProof) {
  ServerHarness h = ServerHarness::flat(1);
  TestJoin join = h.join_of(0, 1, false);
  join.body.server_boot_id = 4242;
  for (int second = 0; second < 8; ++second) {
    h.advance(seconds(1));
    h.receive_as_is(worker_endpoint(0), h.bytes_of(join));
  }
  EXPECT_EQ(h.count(ServerCounter::kRanksLost), 1u) << "none of them renewed its lease";
}

// Otherwise the ranks of a large job that begin on one host would wait for each other's answers.
TEST(Joining, EverybodyIsAskedForAProofAtOnce) {
  ServerHarness h;
  for (int i = 0; i < 1000; ++i) {
    h.receive_as_is(worker_endpoint(0), h.bytes_of(h.join_of(0, 2, false)));
  }
  EXPECT_EQ(h.take(StatusCode::kProve).size(), 1000u);
}

}  // namespace
}  // namespace atp
