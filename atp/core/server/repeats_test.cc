#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "atp/core/server/server_harness.h"

// What the server repeats, and to whom (docs/inside/protocol §6).

namespace atp {
namespace {

using std::chrono::milliseconds;

TEST(Aggregation, ABurstOfDuplicatesOfACompleteFragmentGetsOneAnswerPerRank) {
  ServerHarness h = ServerHarness::behind_switch(3);
  h.gradient(kTestSwitch, {.ranks = RankSet::first(3)});
  h.out.clear();
  h.gradient(kTestSwitch, {.ranks = ranks({0})});
  EXPECT_TRUE(h.take().empty()) << "it was answered just before";
  h.now += milliseconds(5);
  for (int i = 0; i < 4; ++i) h.gradient(kTestSwitch, {.ranks = ranks({0})});
  h.gradient(kTestSwitch, {.ranks = ranks({1})});
  const auto sent = h.take();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].ranks, ranks({0}));
  EXPECT_EQ(sent[1].ranks, ranks({1}));
  EXPECT_EQ(h.count(ServerCounter::kParametersRepeated), 2u);
}

TEST(Aggregation, TheAnswerToAStraightPacketGoesStraightBackAndDownTheTree) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.gradient(kTestSwitch, {.ranks = RankSet::first(2)});
  h.out.clear();
  h.now += milliseconds(5);
  h.gradient(worker_endpoint(1), {.ranks = ranks({1}), .flags = ATP_FLAG_RESEND | ATP_FLAG_DIRECT});
  const auto sent = h.take(PacketType::kParameter);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].to, kTestSwitch);
  EXPECT_EQ(sent[1].to, worker_endpoint(1));
  EXPECT_EQ(sent[1].ranks, ranks({1}));
}

TEST(Aggregation, AWorkerThatIsItsOwnChildIsAnsweredOnce) {
  ServerHarness h = ServerHarness::flat(2);
  TestJoin mark = h.join_of(1, 2, false);
  mark.flags = ATP_FLAG_DIRECT;
  mark.body.detached = true;
  mark.body.detachments = 1;
  h.join(worker_endpoint(1), mark);
  h.out.clear();
  for (int r : {0, 1}) h.gradient(worker_endpoint(static_cast<Rank>(r)), {.ranks = ranks({r})});
  EXPECT_EQ(h.take(PacketType::kParameter).size(), 2u) << "one per worker, detached or not";
  h.now += milliseconds(5);
  h.gradient(worker_endpoint(1), {.ranks = ranks({1}), .flags = ATP_FLAG_RESEND | ATP_FLAG_DIRECT});
  EXPECT_EQ(h.take(PacketType::kParameter).size(), 1u);
}

TEST(Aggregation, AfterAnOverlapTheMissingRanksAreAskedForUnmergeablePackets) {
  ServerHarness h = ServerHarness::behind_switch(4);
  h.gradient(kTestSwitch, {.ranks = ranks({0, 1})});
  h.gradient(kTestSwitch, {.ranks = ranks({1, 2})});
  h.gradient(kTestSwitch, {.ranks = ranks({1, 2})});
  const auto sent = h.take();
  ASSERT_EQ(sent.size(), 1u) << "rate-limited";
  EXPECT_EQ(sent[0].type(), PacketType::kNack);
  EXPECT_EQ(sent[0].header.flags, ATP_FLAG_DIRECT);
  EXPECT_EQ(sent[0].ranks, ranks({2, 3}));
}

TEST(Aggregation, AStraightDuplicateIsAnsweredWithWhomTheFragmentWaitsFor) {
  for (const std::uint8_t flag : {ATP_FLAG_RESEND, ATP_FLAG_FLOAT}) {
    ServerHarness h = ServerHarness::behind_switch(3);
    const bool is_float = flag == ATP_FLAG_FLOAT;
    if (is_float) {
      h.gradient(kTestSwitch, {.ranks = RankSet::first(3), .flags = ATP_FLAG_OVERFLOW});
    }
    const std::uint8_t flags = flag | ATP_FLAG_DIRECT;
    for (int i = 0; i < 3; ++i) {
      h.gradient(worker_endpoint(1), {.ranks = ranks({1}), .flags = flags});
    }
    const auto sent = h.take(StatusCode::kWaitingFor);
    ASSERT_EQ(sent.size(), 1u) << "the first is added, the third comes within the pause";
    EXPECT_EQ(sent[0].to, worker_endpoint(1));
    EXPECT_EQ(sent[0].ranks, ranks({1}));
    EXPECT_EQ(sent[0].status().about, ranks({0, 2}));
    EXPECT_EQ(sent[0].status().endpoints[0], worker_endpoint(0));
    EXPECT_EQ(sent[0].header.operation, kTestOperation);
    h.now += milliseconds(10);
    h.gradient(worker_endpoint(1), {.ranks = ranks({1}), .flags = flags});
    EXPECT_EQ(h.take(StatusCode::kWaitingFor).size(), 1u);
    h.now += milliseconds(10);
    h.gradient(kTestSwitch, {.ranks = ranks({1}), .flags = flags});
    EXPECT_TRUE(h.take(StatusCode::kWaitingFor).empty()) << "did not come straight";
  }
}

TEST(Aggregation, AMismatchIsAnnouncedToAllRepeatedlyWithBothSides) {
  ServerHarness h = ServerHarness::behind_switch(3);
  h.gradient(kTestSwitch, {.ranks = ranks({0})});
  h.gradient(kTestSwitch, {.ranks = ranks({1}), .operation = 77});
  h.gradient(kTestSwitch, {.ranks = ranks({1}), .operation = 77});
  auto sent = h.take(StatusCode::kOperationMismatch);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].ranks, RankSet::first(3));
  EXPECT_EQ(sent[0].header.operation, kTestOperation);
  EXPECT_EQ(sent[0].status().about, ranks({0}));
  EXPECT_EQ(sent[0].status().other, ranks({1}));

  h.now += milliseconds(10);
  h.gradient(kTestSwitch, {.ranks = ranks({2})});
  sent = h.take(StatusCode::kOperationMismatch);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].status().about, ranks({0, 2}));
  EXPECT_EQ(h.count(ServerCounter::kStatusOperationMismatch), 2u);
}

// Any copy of the announcement may be lost, so the server says it again whenever it has to say
// something about the job, and in place of anything that follows from it.
TEST(Aggregation, TheFirstMismatchIsRepeatedForAsLongAsItHolds) {
  using H = ServerHarness;
  struct Row {
    const char* name;
    std::function<void(H&)> happens;
    std::optional<StatusCode> effect = std::nullopt;  // not said to all
  };
  const Row rows[] = {
      {"an older fragment of the stream has waited for a second",
       [](H& h) { h.advance(milliseconds(1500)); }},
      {"a fragment of another operation disagrees, too",
       [](H& h) {
         h.now += milliseconds(10);
         h.gradient(worker_endpoint(0), {.sequence = 2, .ranks = ranks({0}), .operation = 300});
         h.gradient(worker_endpoint(1), {.sequence = 2, .ranks = ranks({1}), .operation = 301});
       }},
      {"a rank repeats a fragment straight",
       [](H& h) {
         h.gradient(worker_endpoint(0), {.ranks = ranks({0}), .flags = ATP_FLAG_RESEND});
       }},
      {"a rank leaves", [](H& h) { h.leave(worker_endpoint(1), 1, nonce_of(1)); },
       StatusCode::kLeft},
      {"a lease ends",
       [](H& h) {
         for (int second = 0; second < 7; ++second) {
           h.advance(std::chrono::seconds(1));
           for (const Rank rank : {0, 2}) h.join_rank(rank, 3, false);
         }
       },
       StatusCode::kLeaseEnded},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    H h;
    h.join_all(3, false);
    h.gradient(worker_endpoint(0), {.sequence = 0, .ranks = ranks({0})});
    h.gradient(worker_endpoint(0), {.sequence = 1, .ranks = ranks({0}), .operation = 200});
    h.gradient(worker_endpoint(1), {.sequence = 1, .ranks = ranks({1}), .operation = 201});
    ASSERT_FALSE(h.take(StatusCode::kOperationMismatch).empty());
    row.happens(h);
    bool is_said = false;
    for (const Sent& sent : h.take()) {
      if (sent.header.type != ATP_STATUS) continue;
      const StatusMessage status = sent.status();
      EXPECT_NE(status.code, StatusCode::kWaitingFor);
      EXPECT_FALSE(status.nonce == 0 && status.code == row.effect);
      if (status.code != StatusCode::kOperationMismatch) continue;
      is_said |= (status.reason == StatusMessage::kSomeAreGone) == row.effect.has_value();
      EXPECT_EQ(sent.header.sequence, 1u);
      EXPECT_EQ(sent.header.operation, 200u);
      EXPECT_EQ(status.about, ranks({0}));
      EXPECT_EQ(status.other, ranks({1}));
    }
    EXPECT_TRUE(is_said);
  }
}

}  // namespace
}  // namespace atp
