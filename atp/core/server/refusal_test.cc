#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "atp/core/server/server_harness.h"

// JOINs that are rejected (docs/inside/protocol §2, *Refusals*).

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Disagreement {
  std::string name;
  std::function<void(TestJoin&)> change;
  Refusal refusal;
};

TEST(Joining, AMismatchIsRefusedWithWhatWasExpectedAndFoundAndWhichRanksDiffer) {
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
      {"another number format",
       [](TestJoin& j) { j.body.number_format = NumberFormat::kBlocks; },
       {RefusalReason::kNumberFormat, 0, 1, first_rank}},
      {"another version",
       [](TestJoin& j) {
         j.body.version_min = 3;
         j.body.version_max = 4;
       },
       {RefusalReason::kVersion, 0x0202, 0x0304}},
      {"a route that continues behind the server",
       [](TestJoin& j) { j.body.remaining.push_back(kTestSwitch); },
       {RefusalReason::kRoute}},
      {"a route that has ended", [](TestJoin& j) { j.body.remaining.clear(); },
       Refusal::if_meant_for_another({}, kTestServer)},
      {"a JOIN that was meant for a switch",
       [](TestJoin& j) {
         j.body.remaining.clear();
         j.body.remaining.push_back(kTestSwitch);
         j.body.remaining.push_back(kTestServer);
       },
       Refusal::if_meant_for_another(kTestSwitch, kTestServer)},
      {"a JOIN that was meant for another server",
       [](TestJoin& j) {
         j.body.remaining.clear();
         j.body.remaining.push_back(kStranger);
       },
       Refusal::if_meant_for_another(kStranger, kTestServer)},
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
    auto sent = h.take();
    std::erase_if(sent,
                  [](const Sent& s) { return s.status().nonce == 0; });  // for the other ranks
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

TEST(Joining, ARejectedRankIsAnsweredAtMostOncePer10Ms) {
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

// A switch has noted the ranks whose JOINs it has passed on, so it must learn of each rejection.
TEST(Joining, EachRejectedJoinOfAMembersSwitchIsAnswered) {
  ServerHarness h = ServerHarness::behind_switch(2);
  TestJoin twin = h.join_of(1, 2, true);
  for (int i = 0; i < 50; ++i) {
    twin.body.nonce = 666 + static_cast<std::uint64_t>(i);
    h.join(kTestSwitch, twin);
    h.join(kStranger, twin);
  }
  EXPECT_EQ(h.count(ServerCounter::kDropRankTaken), 100u);
  EXPECT_EQ(h.count(ServerCounter::kStatusRankTaken), 51u) << "and one goes to the stranger";
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

TEST(Joining, ASocketIsOfOneRankOnEachPathButASwitchSpeaksForMany) {
  struct Case {
    std::uint8_t first, second;  // the flags of the ranks' JOINs
  };
  for (const Case& c : {Case{0, 0}, Case{0, ATP_FLAG_DIRECT}, Case{ATP_FLAG_DIRECT, 0},
                        Case{ATP_FLAG_DIRECT, ATP_FLAG_DIRECT}}) {
    ServerHarness h;
    TestJoin holder = h.join_of(0, 2, false), other = h.join_of(1, 2, false);
    holder.flags = c.first;
    other.flags = c.second;
    h.join(worker_endpoint(0), holder);
    h.out.clear();
    h.join(worker_endpoint(0), other);
    const auto sent = h.take(StatusCode::kRefused);
    ASSERT_FALSE(sent.empty());
    EXPECT_EQ(sent[0].to, worker_endpoint(0));
    EXPECT_EQ(sent[0].status().about, ranks({1}));
    EXPECT_EQ(sent[0].status().refusal(),
              (Refusal{.reason = RefusalReason::kSocket, .holders = ranks({0})}));
    h.leave(worker_endpoint(0), 0, holder.body.nonce, c.first);
    h.join(worker_endpoint(0), other);
    EXPECT_EQ(h.count(ServerCounter::kDropRefused), 1u) << "rank 0 has left";
  }
  ServerHarness h = ServerHarness::behind_switch(2);
  h.join(kTestSwitch, h.join_of(1, 2, true));
  EXPECT_EQ(h.count(ServerCounter::kDropRefused), 0u);
}

TEST(Joining, ARankHeldByAnotherNonceIsTakenAndItsHolderIsUndisturbed) {
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

TEST(Joining, ARankIsFreeAgainWhenItsLeaseEndsBeforeAllHaveJoined) {
  ServerHarness h;
  h.join_rank(0, 2, false);
  TestJoin twin = h.join_of(0, 2, false);
  twin.body.nonce = 5;
  h.join(worker_endpoint(7), twin);
  EXPECT_EQ(h.take(StatusCode::kRankTaken).size(), 1u);
  // Another rank's lease keeps the job for two more seconds, but not rank 0.
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

}  // namespace
}  // namespace atp
