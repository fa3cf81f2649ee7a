#include <gmock/gmock.h>

#include "atp/base/testing_little_memory.h"
#include "atp/core/dataplane/join_relay.h"
#include "atp/core/dataplane/switch_rig_test.h"
#include "atp/core/testing_quotas.h"

// JOINs that a switch refuses (docs/inside/protocol §2, *Refusals*).

namespace atp::rig {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Refusal meant_for(const Endpoint& other) { return Refusal::if_meant_for_another(other, kOwn); }

void expect_refused(Rig& rig, const Bytes& bytes, const Refusal& refusal,
                    const Endpoint& from = child(0)) {
  SCOPED_TRACE(to_string(refusal.reason));
  rig.wait(10ms);  // the pause between two answers
  const std::uint64_t dropped = rig.count(SwitchCounter::kDropRefused);
  const auto sent = rig.in(from, bytes);
  ASSERT_THAT(receivers(sent), ElementsAre(from));
  const StatusMessage status = sent[0].status();
  EXPECT_EQ(status.code, StatusCode::kRefused);
  EXPECT_EQ(status.refusal(), refusal);
  EXPECT_EQ(status.nonce, nonce(0));
  EXPECT_EQ(rig.count(SwitchCounter::kDropRefused), dropped + 1);
}

TEST(SwitchRefusal, AnImpossibleJoinIsRefusedWithItsReason) {
  struct Case {
    Refusal refusal;
    void (*change)(Join&);
  };
  const Case cases[] = {
      {meant_for({}), [](Join& j) { j.remaining.clear(); }},
      {meant_for(kServer), [](Join& j) { j.remaining.pop_front(); }},
      {{RefusalReason::kRoute},
       [](Join& j) {
         j.remaining.clear();
         j.remaining.push_back(kOwn);
       }},
      {{RefusalReason::kRoute},
       [](Join& j) {
         while (j.recorded.push_back(kStranger)) {
         }
       }},
      {{RefusalReason::kRoute},
       [](Join& j) {
         j.remaining.clear();
         j.remaining.push_back(kOwn);
         j.remaining.push_back(child(0));
       }},
      // Routes with a loop: packets that go up such a tree would never arrive.
      {{RefusalReason::kRoute}, [](Join& j) { j.recorded.push_back(kOwn); }},
      {{RefusalReason::kRoute}, [](Join& j) { j.recorded.push_back(kServer); }},
      {{RefusalReason::kRoute},
       [](Join& j) {
         j.remaining.push_back(kOwn);
         j.remaining.push_back(kServer);
       }},
      {{RefusalReason::kUpstream},
       [](Join& j) {
         j.remaining.clear();
         j.remaining.push_back(kOwn);
         j.remaining.push_back(kStranger);
       }},
      {{RefusalReason::kStreams, kMaxStreamsOfTree, kMaxStreamsOfTree + 1},
       [](Join& j) { j.stream_count = kMaxStreamsOfTree + 1; }},
      {{RefusalReason::kVersion, 0x0202, 0x0303},
       [](Join& j) { j.version_min = j.version_max = 3; }},
      {{RefusalReason::kVersion, 0x0202, 0}, [](Join& j) { j.version_min = j.version_max = 0; }},
  };
  Rig rig;
  for (const Case& c : cases) {
    Join body = join_body(0);
    c.change(body);
    expect_refused(rig, join(0, body), c.refusal);
  }
  EXPECT_EQ(rig.node.trees(), 0u);
}

// A JOIN that somebody has captured and sends to another node would move its rank behind that node.
TEST(SwitchRefusal, AJoinCountsOnlyAtTheAddressThatItsRouteNames) {
  struct Case {
    const char* name;
    std::vector<Endpoint> remaining;
    std::vector<Endpoint> recorded;
  };
  const Endpoint sibling = Endpoint::ipv4(10, 0, 0, 2, 5501);
  const Endpoint other_port = Endpoint::ipv4(10, 0, 0, 1, 5502);
  const Endpoint spine = Endpoint::ipv4(10, 0, 1, 7, 5501);
  const Case cases[] = {
      {"it is a rank's to the switch of another rack", {sibling, spine, kServer}, {}},
      {"it is a rank's to another lane of this host", {other_port, kServer}, {}},
      {"it is a switch's to the switch above", {spine, kServer}, {sibling}},
      {"it is a switch's to the server", {kServer}, {sibling, spine}},
  };
  Rig rig;
  rig.join_all();
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Join body = join_body(0);
    body.remaining.clear();
    for (const Endpoint& hop : c.remaining) body.remaining.push_back(hop);
    for (const Endpoint& hop : c.recorded) body.recorded.push_back(hop);
    const SwitchNode before = rig.node;
    expect_refused(rig, join(0, body), meant_for(c.remaining[0]), kStranger);
    EXPECT_EQ(rig.node.trees(), before.trees());
    rig.node.for_each_tree([](const Tree& tree, const atp_share&) {
      EXPECT_EQ(tree.membership().member(0).child, child(0)) << "the rank has not moved";
    });
  }
}

TEST(SwitchRefusal, ARankBeyondTheWorldOrASecondRankIsRefused) {
  Rig rig;
  Join body = join_body(0);
  body.world_size = 3;
  expect_refused(rig, join(3, body), {RefusalReason::kRank, 3, 3});
  const ControlHead two{.type = PacketType::kJoin, .job = kJob};
  expect_refused(rig, control(put_join, two, ranks({0, 1}), body), {RefusalReason::kRank});
  expect_refused(rig, control(put_join, two, RankSet{}, body), {RefusalReason::kRank});
}

TEST(SwitchRefusal, AJoinWithAnotherWorldSizeStreamRangeOrParentIsRefusedAndNamesTheHolders) {
  const RankSet all = RankSet::first(4);
  const std::uint32_t agreed_streams = streams_number(0, 4);
  struct Case {
    Refusal refusal;
    void (*change)(Join&);
  };
  const Case cases[] = {
      {{RefusalReason::kWorldSize, 4, 5, all}, [](Join& j) { j.world_size = 5; }},
      {{RefusalReason::kWorldSize, 4, 65, all}, [](Join& j) { j.world_size = 65; }},
      {{RefusalReason::kStreams, agreed_streams, streams_number(0, 5), all},
       [](Join& j) { j.stream_count = 5; }},
      {{RefusalReason::kStreams, agreed_streams, streams_number(3, 4), all},
       [](Join& j) { j.first_stream = 3; }},
      {{RefusalReason::kRoute, 0, 0, ranks({1, 2, 3})},
       [](Join& j) {
         j.remaining.clear();
         j.remaining.push_back(kOwn);
         j.remaining.push_back(Endpoint::ipv4(10, 0, 1, 2, 5500));
       }},
  };
  Rig rig;
  rig.join_all();
  for (const Case& c : cases) {
    Join body = join_body(0);
    c.change(body);
    expect_refused(rig, join(0, body), c.refusal);
  }
}

TEST(SwitchRefusal, ASocketIsOfOneRankButASwitchSpeaksForMany) {
  Rig rig;
  rig.in(child(1), join(0));
  rig.in(child(1), join(1));
  EXPECT_EQ(rig.count(SwitchCounter::kDropRefused), 0u) << "an applicant keeps nobody out";
  rig.accept(1, nonce(1));
  rig.accept(0, nonce(0));
  EXPECT_THAT(rig.in(child(1), gradient(ranks({0, 1}), 0, 1))[0].status().about, ranks({0}))
      << "but the second of them is no member";
  rig.join_all();
  const Refusal refusal{.reason = RefusalReason::kSocket, .holders = ranks({1})};
  expect_refused(rig, join(0), refusal, child(1));
  Join from_switch = join_body(0);
  from_switch.recorded.push_back(child(1));
  EXPECT_THAT(receivers(rig.in(child(1), join(0, from_switch))), ElementsAre(kServer));
  rig.in(child(0), join(0));
  rig.in(child(1), leave(1, nonce(1)));
  EXPECT_THAT(receivers(rig.in(child(1), join(0))), ElementsAre(kServer)) << "rank 1 has left";
}

TEST(SwitchRefusal, HoldsNoMoreTreesThanItHasRoomFor) {
  Rig rig;
  for (std::uint16_t i = 0; i < 4; ++i) {
    Join body = join_body(0);
    body.first_stream = static_cast<std::uint16_t>(4 * i);
    relayed(rig.in(child(0), join(0, body)));
  }
  Join body = join_body(0);
  body.first_stream = 100;
  expect_refused(rig, join(0, body), {RefusalReason::kTooManyJobs, 4, 0});
  rig.wait(6s);
  EXPECT_EQ(rig.node.trees(), 0u);
  relayed(rig.in(child(0), join(0, body)));
}

Join by(const Endpoint& next, unsigned rank, std::uint64_t with_nonce) {
  Join body = join_body(rank);
  body.nonce = with_nonce;
  body.remaining.clear();
  body.remaining.push_back(kOwn);
  body.remaining.push_back(next);
  return body;
}

// A tree has one parent. Anybody may apply for a rank, and go on doing so.
TEST(SwitchRefusal, OnlyMembersKeepALoneMemberFromMovingItsTree) {
  const Endpoint other_hop = Endpoint::ipv4(10, 0, 1, 2, 5500);
  const struct {
    const char* what;
    std::uint64_t nonce;  // of rank 0's JOIN
    bool others_are_members;
    RankSet holders;  // none: the tree moves
  } rows[] = {
      {"a member, besides applicants", nonce(0), false, {}},
      {"a member, besides members", nonce(0), true, ranks({2})},
      {"another socket that applies for its rank, besides applicants", 77, false, ranks({1})},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    Rig rig;
    const auto make_member = [&](unsigned rank) {
      relayed(rig.in(child(rank), join(rank)));
      JoinAck ack = ack_body();
      ack.nonce = nonce(rank);
      rig.in(kServer, join_ack(RankSet::of(static_cast<Rank>(rank)), ack));
    };
    make_member(0);
    if (row.others_are_members) make_member(2);
    if (row.nonce != nonce(0)) rig.in(child(0), leave(0, nonce(0)));
    relayed(rig.in(kStranger, join(1)));
    const auto holders_for = [&](unsigned rank, const Join& body) {
      rig.wait(10ms);  // the pause between two answers
      const auto sent = rig.in(child(rank), join(rank, body));
      EXPECT_THAT(receivers(sent), ElementsAre(child(rank)));
      const Refusal refusal = sent.empty() ? Refusal{} : sent[0].status().refusal();
      EXPECT_EQ(refusal.reason, RefusalReason::kRoute);
      return refusal.holders;
    };
    const Join moved = by(other_hop, 0, row.nonce);
    if (!row.holders.empty()) {
      EXPECT_EQ(holders_for(0, moved), row.holders);
      continue;
    }
    EXPECT_EQ(receivers(rig.in(child(0), join(0, moved))), std::vector{other_hop});
    EXPECT_EQ(holders_for(1, by(kServer, 1, 78)), ranks({0}));
  }
}

Bytes join_of_job(std::uint32_t job, std::uint16_t first_stream = 0, std::uint16_t tenant = 0) {
  Join body = join_body(0);
  body.first_stream = first_stream;
  Bytes bytes = join(0, body);
  atp_store32(&bytes[ATP_AT_JOB], job);
  atp_store16(&bytes[ATP_AT_TENANT], tenant);
  return bytes;
}

TEST(SwitchRefusal, AJobForWhichTheSystemHasNoMemoryIsRefusedAndTheOthersGoOn) {
  Rig rig;
  relayed(rig.in(child(0), join(0)));
  const Bytes again = proven(rig.secret, child(0), join(0));
  const Bytes other = proven(rig.secret, child(0), join_of_job(2));
  Outbox out(8, 1 << 16);
  {
    const LittleMemory little(std::size_t{2} << 20);
    rig.node.handle_packet(rig.now, child(0), kOwn, other, out);
    rig.node.handle_packet(rig.now, child(0), kOwn, again, out);
  }
  ASSERT_EQ(out.packets().size(), 2u);
  const ParsedPacket refused = parse_packet(out.bytes_of(out.packets()[0]));
  EXPECT_EQ(StatusMessage::read(refused.view())->refusal(), memory_refusal(0, 1));
  EXPECT_EQ(out.packets()[1].to, kServer) << "the known job's JOIN goes on";
  relayed(rig.in(child(0), other));
}

TEST(SwitchRefusal, TenantsHoldNoMoreThanTheirQuota) {
  const std::size_t each = Tree::bytes_needed(4, {0, join_body(0).stream_count});
  const struct {
    const char* what;
    Quota quota;
    Refusal third;
  } cases[] = {
      {"jobs", {.jobs = 2}, {RefusalReason::kTenantJobs, 2, 0}},
      {"memory",
       {.bytes = 3 * each + each / 2},
       memory_refusal(each / 2, each, RefusalReason::kTenantMemory)},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    TestQuotas quotas;
    quotas.by_tenant[7] = c.quota;
    SwitchConfig config = rig::config();
    config.max_trees = 8;
    config.quotas = &quotas;
    Rig rig(config);
    relayed(rig.in(child(0), join_of_job(1, 0, 7)));
    relayed(rig.in(child(0), join_of_job(1, 100, 7)));
    relayed(rig.in(child(0), join_of_job(1, 0, 8)));
    relayed(rig.in(child(0), join_of_job(2, 0, 7)));
    expect_refused(rig, join_of_job(3, 0, 7), c.third);
    relayed(rig.in(child(0), join_of_job(4)));
    EXPECT_TRUE(rig.node.knows_job(2));
    EXPECT_FALSE(rig.node.knows_job(3));
    EXPECT_FALSE(rig.node.knows_job(0));
  }
}

TEST(SwitchRefusal, AJoinWhoseTagIsNotAcceptedIsAnsweredAndChangesNothing) {
  Rig rig;
  Outbox out;
  const auto refuse = [&](const Bytes& bytes) {
    out.clear();
    rig.node.refuse_key(rig.now, child(0), bytes, KeyProblem::kNoTag, out);
  };
  refuse(join(0, join_body(0)));
  ASSERT_EQ(out.packets().size(), 1u);
  const ParsedPacket answer = parse_packet(out.bytes_of(out.packets()[0]));
  ASSERT_TRUE(answer.ok());
  const auto status = StatusMessage::read(answer.view());
  ASSERT_TRUE(status);
  EXPECT_EQ(status->refusal(), (Refusal{RefusalReason::kKey, 1, 0}));
  EXPECT_EQ(rig.node.trees(), 0u);
  refuse(gradient(RankSet::of(0), 0, 1));
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(rig.count(SwitchCounter::kDropKey), 2u);
}

TEST(SwitchRefusal, WhileItDrainsOnlyJobsThatAreUnknownAreRefused) {
  Rig rig;
  relayed(rig.in(child(0), join(0, join_body(0))));
  rig.node.drain();
  // The known job goes on: its other ranks, and its other stream ranges, may still come.
  relayed(rig.in(child(1), join(1, join_body(1))));
  Join other_range = join_body(0);
  other_range.first_stream = 100;
  relayed(rig.in(child(0), join(0, other_range)));
  EXPECT_EQ(rig.node.trees(), 2u);

  rig.wait(6s);
  EXPECT_EQ(rig.node.trees(), 0u);
  expect_refused(rig, join(0, join_body(0)), {RefusalReason::kDraining});
}

TEST(SwitchRefusal, ARankThatIsHeldIsTaken) {
  Rig rig;
  rig.join_all();
  Join twin = join_body(1);
  twin.nonce = 99;
  const auto sent = rig.in(kStranger, join(1, twin));
  ASSERT_THAT(receivers(sent), ElementsAre(kStranger));
  const StatusMessage status = sent[0].status();
  EXPECT_EQ(status.code, StatusCode::kRankTaken);
  EXPECT_EQ(status.nonce, 99u);
  EXPECT_EQ(status.about, ranks({1}));
  EXPECT_EQ(status.endpoints[0], child(1));
  EXPECT_EQ(status.endpoint_count, 1u);
  EXPECT_EQ(rig.count(SwitchCounter::kDropRankTaken), 1u);
  EXPECT_THAT(rig.in(child(1), gradient(ranks({1}), 0, 1)), IsEmpty())
      << "the rank is still the holder's";
}

TEST(SwitchRefusal, ATakenRankIsFreeWhenItsLeaseHasEnded) {
  Rig rig;
  rig.join_all();
  rig.wait(5s);
  Join twin = join_body(1);
  twin.nonce = 99;
  relayed(rig.in(kStranger, join(1, twin)));
}

TEST(SwitchRefusal, ARankThatTheServerRefusesIsForgottenAfterItIsTold) {
  Rig rig;
  rig.join_all();
  StatusMessage refused;
  refused.code = StatusCode::kRefused;
  refused.about = ranks({3});
  refused.nonce = nonce(3) + 1;
  rig.in(kServer, status(ranks({3}), refused));
  EXPECT_THAT(rig.in(child(3), gradient(ranks({3}), 0, 1)), IsEmpty())
      << "the refusal of another JOIN";
  refused.nonce = nonce(3);
  EXPECT_THAT(receivers(rig.in(kServer, status(ranks({3}), refused))), ElementsAre(child(3)));
  rig.in(child(3), gradient(ranks({3}), 1, 1));
  EXPECT_EQ(rig.count(SwitchCounter::kDropUnknownChild), 1u);
}

}  // namespace
}  // namespace atp::rig
