#include "atp/core/server/aggregation.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "atp/core/server/server_harness.h"

namespace atp {
namespace {

using Values = std::vector<std::int32_t>;
using std::chrono::milliseconds;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Aggregation, ASumOfTheSwitchIsAnsweredAtOnceToAllBehindIt) {
  ServerHarness h = ServerHarness::behind_switch(4);
  h.gradient(kTestSwitch, {.ranks = RankSet::first(4), .values = {5, -6}, .magnitude = 40});
  const auto sent = h.take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].type(), PacketType::kParameter);
  EXPECT_EQ(sent[0].to, kTestSwitch);
  EXPECT_EQ(sent[0].ranks, RankSet::first(4));
  EXPECT_EQ(sent[0].values(), (Values{5, -6}));
  EXPECT_EQ(sent[0].header.sequence, 0u);
  EXPECT_EQ(sent[0].header.operation, kTestOperation);
  EXPECT_EQ(sent[0].header.aggregator_index, kTestIndex);
  EXPECT_EQ(sent[0].header.next_index, kTestIndex);
  EXPECT_EQ(sent[0].header.magnitude, 40u);
  EXPECT_EQ(sent[0].header.flags, 0);
  EXPECT_EQ(h.count(ServerCounter::kFragmentsCompletedByOnePacket), 1u);
  EXPECT_EQ(h.count(ServerCounter::kFragmentsCompletedByServer), 0u);
}

TEST(Aggregation, WithoutASwitchTheServerAddsInAnyOrder) {
  for (const std::vector<Rank>& order : {std::vector<Rank>{0, 1, 2}, {2, 0, 1}, {1, 2, 0}}) {
    ServerHarness h = ServerHarness::flat(3);
    for (Rank r : order) {
      EXPECT_TRUE(h.take().empty());
      h.gradient(worker_endpoint(r), {.ranks = RankSet::of(r), .values = {1 << r, -100 * r}});
    }
    const auto sent = h.take();
    ASSERT_EQ(sent.size(), 3u) << "one to each child";
    for (const Sent& s : sent) EXPECT_EQ(s.values(), (Values{7, -300}));
    EXPECT_EQ(sent[0].header.magnitude, 3u);
    EXPECT_EQ(h.count(ServerCounter::kFragmentsCompletedByServer), 1u);
  }
}

TEST(Aggregation, AJobOfOneWorkerCompletesEveryPacket) {
  ServerHarness h = ServerHarness::flat(1);
  for (std::uint64_t s = 0; s < 50; ++s) {
    h.gradient(worker_endpoint(0), {.sequence = s, .ranks = RankSet::of(0)});
    EXPECT_EQ(h.take(PacketType::kParameter).size(), 1u);
  }
  EXPECT_EQ(h.count(ServerCounter::kFragmentsCompleted), 50u);
}

// The rows of docs/protocol.md §6. Before each, rank 0 and 1 are in for sequence 3, and sequences
// 0 … 2 are complete.
TestGradient packet_of(std::uint64_t sequence, const RankSet& from, std::uint8_t flags = 0,
                       std::uint32_t operation = kTestOperation, std::size_t value_count = 2) {
  TestGradient g;
  g.sequence = sequence;
  g.ranks = from;
  g.flags = flags;
  g.operation = operation;
  g.values.resize(value_count);
  return g;
}

struct Row {
  std::string name;
  Endpoint from;
  TestGradient packet;
  ServerCounter dropped;
  std::vector<PacketType> answers;
};

TEST(Aggregation, WhatIsNoContributionIsDroppedUnderItsOwnName) {
  constexpr std::uint8_t kResend = ATP_FLAG_RESEND;
  const std::vector<Row> rows = {
      {"a duplicate", kTestSwitch, packet_of(3, ranks({1})), ServerCounter::kDropDuplicate, {}},
      {"a duplicate sum",
       kTestSwitch,
       packet_of(3, ranks({0, 1})),
       ServerCounter::kDropDuplicate,
       {}},
      {"an overlap asks for what is missing, past all switches",
       kTestSwitch,
       packet_of(3, ranks({1, 2})),
       ServerCounter::kDropOverlap,
       {PacketType::kNack}},
      {"a repeat of a complete fragment gets its PARAMETER",
       kTestSwitch,
       packet_of(2, ranks({1}), kResend),
       ServerCounter::kDropComplete,
       {PacketType::kParameter}},
      {"another operation is named to all",
       kTestSwitch,
       packet_of(3, ranks({2}), 0, kTestOperation + 1),
       ServerCounter::kDropWrongOperation,
       {PacketType::kStatus}},
      {"another operation of a complete fragment",
       kTestSwitch,
       packet_of(2, ranks({2}), 0, kTestOperation + 1),
       ServerCounter::kDropWrongOperation,
       {}},
      {"a float nobody asked for",
       kTestSwitch,
       packet_of(3, ranks({2}), ATP_FLAG_FLOAT),
       ServerCounter::kDropFloatInIntegerMode,
       {}},
      {"beyond the ring",
       kTestSwitch,
       packet_of(11, ranks({2})),
       ServerCounter::kDropFutureSequence,
       {}},
      {"the largest sequence",
       kTestSwitch,
       packet_of(UINT64_MAX, ranks({2})),
       ServerCounter::kDropFutureSequence,
       {}},
      {"another K",
       kTestSwitch,
       packet_of(3, ranks({2}), 0, kTestOperation, 3),
       ServerCounter::kDropWrongValueCount,
       {}},
      {"no ranks", kTestSwitch, packet_of(3, RankSet{}), ServerCounter::kDropForeignRanks, {}},
      {"a rank beyond the world",
       kTestSwitch,
       packet_of(3, ranks({2, 4})),
       ServerCounter::kDropForeignRanks,
       {}},
      {"a stranger's address",
       kStranger,
       packet_of(3, ranks({2})),
       ServerCounter::kDropWrongSource,
       {PacketType::kStatus}},
      {"another worker's bit",
       worker_endpoint(1),
       packet_of(3, ranks({2})),
       ServerCounter::kDropWrongSource,
       {PacketType::kStatus}},
      {"its own bit and another's",
       worker_endpoint(2),
       packet_of(3, ranks({2, 3})),
       ServerCounter::kDropWrongSource,
       {PacketType::kStatus}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    ServerHarness h = ServerHarness::behind_switch(4);
    for (std::uint64_t s = 0; s < 3; ++s) h.gradient(kTestSwitch, {s, RankSet::first(4)});
    h.gradient(kTestSwitch, {3, ranks({0, 1}), {10, 20}});
    h.now += milliseconds(20);
    h.out.clear();
    h.gradient(row.from, row.packet);
    EXPECT_EQ(h.count(row.dropped), 1u);
    std::vector<PacketType> answers;
    for (const Sent& s : h.take()) answers.push_back(s.type());
    EXPECT_EQ(answers, row.answers);

    // Whatever it was, it has changed nothing.
    h.gradient(kTestSwitch, {3, ranks({2, 3}), {1, 2}});
    const auto parameters = h.take(PacketType::kParameter);
    ASSERT_EQ(parameters.size(), 1u);
    EXPECT_EQ(parameters[0].values(), (Values{11, 22}));
  }
}

TEST(Aggregation, WhatAllWorkersProvablyHoldIsForgotten) {
  ServerHarness h = ServerHarness::behind_switch(2);
  for (std::uint64_t s = 0; s < 9; ++s) h.gradient(kTestSwitch, {s, RankSet::first(2)});
  h.now += milliseconds(20);
  h.out.clear();
  h.gradient(kTestSwitch, {0, ranks({1})});
  EXPECT_EQ(h.count(ServerCounter::kDropPastSequence), 1u);
  EXPECT_TRUE(h.take().empty());
  h.gradient(kTestSwitch, {1, ranks({1})});
  EXPECT_EQ(h.take(PacketType::kParameter).size(), 1u) << "one window back is still held";
}

TEST(Aggregation, MoreRanksReplaceFewerWithTheirFlagsAndMagnitude) {
  ServerHarness h = ServerHarness::behind_switch(3);
  h.gradient(kTestSwitch, {.ranks = ranks({0}), .values = {1, 1}, .magnitude = 7});
  h.gradient(kTestSwitch, {.ranks = ranks({0, 1}), .values = {30, 40}, .magnitude = 9});
  h.gradient(kTestSwitch, {.ranks = ranks({2}), .values = {1, 2}, .magnitude = 5});
  const auto sent = h.take(PacketType::kParameter);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].values(), (Values{31, 42}));
  EXPECT_EQ(sent[0].header.magnitude, 14u);
}

TEST(Aggregation, CongestionAndCollisionCountEvenFromDroppedPackets) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.gradient(kTestSwitch, {.ranks = ranks({0})});
  h.gradient(kTestSwitch, {.ranks = ranks({0}), .flags = ATP_FLAG_ECN | ATP_FLAG_COLLISION});
  h.gradient(kTestSwitch, {.ranks = ranks({1})});
  const auto sent = h.take(PacketType::kParameter);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].header.flags, ATP_FLAG_ECN | ATP_FLAG_COLLISION);
  EXPECT_EQ(sent[0].header.aggregator_index, kTestIndex);
  EXPECT_EQ(sent[0].header.next_index, atp_fmix32(kTestIndex + 1));
}

// Workers that hold different next indices never meet again.
TEST(Aggregation, TheNextIndexIsFrozenWhenTheFragmentCompletes) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.gradient(kTestSwitch, {.ranks = RankSet::first(2)});
  h.out.clear();
  h.now += milliseconds(20);
  h.gradient(kTestSwitch, {.ranks = ranks({1}), .flags = ATP_FLAG_COLLISION | ATP_FLAG_RESEND});
  const auto sent = h.take(PacketType::kParameter);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].header.next_index, kTestIndex);
  EXPECT_FALSE(sent[0].has(ATP_FLAG_COLLISION));
}

TEST(Aggregation, ItsOwnCongestionIsMarkedOnEveryParameter) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.server.set_congested(true);
  h.gradient(kTestSwitch, {.ranks = RankSet::first(2)});
  EXPECT_TRUE(h.take()[0].has(ATP_FLAG_ECN));
  h.server.set_congested(false);
  h.gradient(kTestSwitch, {.sequence = 1, .ranks = RankSet::first(2)});
  EXPECT_FALSE(h.take()[0].has(ATP_FLAG_ECN));
}

// --- repeats ---

TEST(Aggregation, ABurstOfDuplicatesOfACompleteFragmentMakesOneAnswerToEachRank) {
  ServerHarness h = ServerHarness::behind_switch(3);
  h.gradient(kTestSwitch, {.ranks = RankSet::first(3)});
  h.out.clear();
  h.gradient(kTestSwitch, {.ranks = ranks({0})});
  EXPECT_TRUE(h.take().empty()) << "an echo of what was just answered";
  h.now += milliseconds(5);
  for (int i = 0; i < 4; ++i) h.gradient(kTestSwitch, {.ranks = ranks({0})});
  h.gradient(kTestSwitch, {.ranks = ranks({1})});
  const auto sent = h.take();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].ranks, ranks({0}));
  EXPECT_EQ(sent[1].ranks, ranks({1}));
  EXPECT_EQ(h.count(ServerCounter::kParametersRepeated), 2u);
}

TEST(Aggregation, WhatAnswersAStraightPacketGoesStraightBackAndDownTheTree) {
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
  EXPECT_EQ(h.take(PacketType::kParameter).size(), 2u) << "one to each, detached or not";
  h.now += milliseconds(5);
  h.gradient(worker_endpoint(1), {.ranks = ranks({1}), .flags = ATP_FLAG_RESEND | ATP_FLAG_DIRECT});
  EXPECT_EQ(h.take(PacketType::kParameter).size(), 1u);
}

TEST(Aggregation, AnOverlapAsksTheMissingRanksForWhatNoSwitchMayMerge) {
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

TEST(Aggregation, AStraightRepeatOfWhatIsInHearsWhomTheFragmentWaitsFor) {
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
    ASSERT_EQ(sent.size(), 1u) << "the first is taken, the third within the pause";
    EXPECT_EQ(sent[0].to, worker_endpoint(1));
    EXPECT_EQ(sent[0].ranks, ranks({1}));
    EXPECT_EQ(sent[0].status().about, ranks({0, 2}));
    EXPECT_EQ(sent[0].status().endpoints[0], kTestSwitch);
    EXPECT_EQ(sent[0].header.operation, kTestOperation);
    h.now += milliseconds(10);
    h.gradient(worker_endpoint(1), {.ranks = ranks({1}), .flags = flags});
    EXPECT_EQ(h.take(StatusCode::kWaitingFor).size(), 1u);
    h.now += milliseconds(10);
    h.gradient(kTestSwitch, {.ranks = ranks({1}), .flags = flags});
    EXPECT_TRUE(h.take(StatusCode::kWaitingFor).empty()) << "did not come straight";
  }
}

// --- operations that disagree ---

TEST(Aggregation, AMismatchNamesBothSidesToAllAndKeepsDoingSo) {
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
}

// --- the float path ---

class FloatPath : public testing::Test {
 protected:
  void overflow(std::uint64_t sequence) {
    h_.gradient(kTestSwitch,
                {.sequence = sequence, .ranks = RankSet::first(2), .flags = ATP_FLAG_OVERFLOW});
  }
  void send_float(std::uint64_t sequence, Rank rank, std::initializer_list<float> values) {
    h_.gradient(worker_endpoint(rank), {.sequence = sequence,
                                        .ranks = RankSet::of(rank),
                                        .values = float_values(values),
                                        .flags = ATP_FLAG_FLOAT | ATP_FLAG_DIRECT});
  }
  ServerHarness h_ = ServerHarness::behind_switch(2);
};

TEST_F(FloatPath, AnOverflowAsksAllForFloatsAndAddsThemExactly) {
  overflow(0);
  auto sent = h_.take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].type(), PacketType::kNack);
  EXPECT_EQ(sent[0].header.flags, ATP_FLAG_FLOAT);
  EXPECT_EQ(sent[0].ranks, RankSet::first(2));
  send_float(0, 1, {1e30F, -kInf});
  EXPECT_TRUE(h_.take().empty());
  send_float(0, 0, {1.0F, 5.0F});
  sent = h_.take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].type(), PacketType::kParameter);
  EXPECT_EQ(sent[0].header.flags, ATP_FLAG_FLOAT);
  EXPECT_EQ(sent[0].floats(), (std::vector<float>{1e30F, -kInf}));
  EXPECT_EQ(h_.count(ServerCounter::kFragmentsCompletedFloat), 1u);
  EXPECT_EQ(h_.count(ServerCounter::kFragmentsCompleted), 1u);
}

TEST_F(FloatPath, AMagnitudeBeyondInt32IsAnOverflowWhoeverAdded) {
  h_.gradient(kTestSwitch, {.ranks = RankSet::first(2), .magnitude = 0x7fffffff});
  EXPECT_EQ(h_.take(PacketType::kParameter).size(), 1u);
  h_.gradient(kTestSwitch, {.sequence = 1, .ranks = RankSet::first(2), .magnitude = 0x80000000});
  EXPECT_EQ(h_.take(PacketType::kNack).size(), 1u);
  for (int r : {0, 1}) {
    h_.gradient(kTestSwitch, {.sequence = 2, .ranks = ranks({r}), .magnitude = 0x40000000});
  }
  EXPECT_EQ(h_.take(PacketType::kNack).size(), 1u);
  for (int r : {0, 1}) {
    h_.gradient(kTestSwitch, {.sequence = 3, .ranks = ranks({r}), .magnitude = 0x80000000});
  }
  EXPECT_EQ(h_.count(ServerCounter::kFragmentsWaitedForFloatSlot), 1u) << "saturates";
}

TEST_F(FloatPath, OneContributionsFlagIsEnoughInAnyOrder) {
  for (std::uint64_t s = 0; s < 2; ++s) {
    for (int r : {0, 1}) {
      const bool flagged = static_cast<std::uint64_t>(r) == s;
      h_.gradient(kTestSwitch,
                  {.sequence = s,
                   .ranks = ranks({r}),
                   .flags = static_cast<std::uint8_t>(flagged ? ATP_FLAG_OVERFLOW : 0)});
    }
  }
  EXPECT_EQ(h_.take(PacketType::kNack).size(), 2u);
}

TEST_F(FloatPath, NanReachesTheWorkersAsSuch) {
  overflow(0);
  send_float(0, 0, {kNan, kInf});
  send_float(0, 1, {1.0F, -kInf});
  const auto sent = h_.take(PacketType::kParameter);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(std::isnan(sent[0].floats()[0]));
  EXPECT_TRUE(std::isnan(sent[0].floats()[1]));
}

TEST_F(FloatPath, RepeatedFloatsCountOnce) {
  overflow(0);
  send_float(0, 0, {1, 2});
  send_float(0, 0, {1, 2});
  send_float(0, 1, {10, 20});
  const auto sent = h_.take(PacketType::kParameter);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].floats(), (std::vector<float>{11, 22}));
}

// With the NACK to one rank lost, that rank sends integers for ever.
TEST_F(FloatPath, AnIntegerPacketInFloatModeIsAnsweredByTheNackAgain) {
  overflow(0);
  h_.out.clear();  // the NACK is lost
  send_float(0, 0, {1, 2});
  h_.now += milliseconds(20);
  h_.gradient(worker_endpoint(1),
              {.ranks = ranks({1}), .flags = ATP_FLAG_RESEND | ATP_FLAG_DIRECT});
  const auto sent = h_.take();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].to, kTestSwitch);
  EXPECT_EQ(sent[1].to, worker_endpoint(1));
  for (const Sent& s : sent) {
    EXPECT_EQ(s.type(), PacketType::kNack);
    EXPECT_EQ(s.header.flags, ATP_FLAG_FLOAT);
    EXPECT_EQ(s.ranks, ranks({1}));
  }
  send_float(0, 1, {3, 4});
  EXPECT_EQ(h_.take(PacketType::kParameter)[0].floats(), (std::vector<float>{4, 6}));
}

TEST_F(FloatPath, TheServerAsksAgainByItself) {
  overflow(0);
  send_float(0, 0, {1, 2});
  h_.out.clear();
  h_.advance(milliseconds(300));
  const auto sent = h_.take(PacketType::kNack);
  ASSERT_GE(sent.size(), 2u);
  ASSERT_LE(sent.size(), 5u) << "backs off";
  EXPECT_EQ(h_.count(ServerCounter::kFlushes), 0u) << "no switch holds floats";
  for (const Sent& s : sent) {
    EXPECT_EQ(s.header.flags, ATP_FLAG_FLOAT);
    EXPECT_EQ(s.ranks, ranks({1}));
  }
}

TEST_F(FloatPath, MoreOverflowsThanSlotsWaitForTheirNack) {
  for (std::uint64_t s = 0; s < 4; ++s) overflow(s);
  EXPECT_EQ(h_.take(PacketType::kNack).size(), 2u) << "F is 2 here";
  EXPECT_EQ(h_.count(ServerCounter::kFragmentsWaitedForFloatSlot), 2u);
  h_.gradient(kTestSwitch, {.sequence = 2, .ranks = ranks({0})});
  EXPECT_EQ(h_.count(ServerCounter::kDropDuplicate), 1u);
  EXPECT_TRUE(h_.take().empty());

  for (std::uint64_t s = 0; s < 4; ++s) {
    for (Rank r : {0, 1}) send_float(s, r, {static_cast<float>(s), 1});
    const auto sent = h_.take();
    ASSERT_EQ(sent.size(), s < 2 ? 2u : 1u);
    EXPECT_EQ(sent[0].floats()[0], 2 * static_cast<float>(s));
    if (s < 2) {
      EXPECT_EQ(sent[1].type(), PacketType::kNack);
      EXPECT_EQ(sent[1].header.sequence, s + 2) << "first come, first served";
    }
  }
}

TEST_F(FloatPath, ALeaverIsMissedByFragmentsThatWaitForASlot) {
  for (std::uint64_t s = 0; s < 3; ++s) overflow(s);
  for (std::uint64_t s = 0; s < 2; ++s) send_float(s, 0, {1, 1});
  h_.out.clear();
  h_.leave(kTestSwitch, 0, nonce_of(0));
  EXPECT_EQ(h_.take(StatusCode::kLeft).size(), 2u) << "the acknowledgement, and to the other";
}

TEST_F(FloatPath, FloatsAddedBySomebodyElseAreDropped) {
  overflow(0);
  h_.gradient(kTestSwitch, {.ranks = RankSet::first(2), .flags = ATP_FLAG_FLOAT});
  EXPECT_EQ(h_.count(ServerCounter::kDropFloatOfSeveralRanks), 1u);
}

TEST_F(FloatPath, RepeatsOfAFloatParameterCarryTheSameBits) {
  overflow(0);
  send_float(0, 0, {0.1F, 2});
  send_float(0, 1, {0.2F, 2});
  const auto first = h_.take(PacketType::kParameter);
  h_.now += milliseconds(5);
  h_.gradient(kTestSwitch, {.ranks = ranks({1})});
  const auto again = h_.take(PacketType::kParameter);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].body, first[0].body);
  EXPECT_EQ(again[0].header.flags, first[0].header.flags);
}

// A member that breaks the rules may complete fragments beyond its window. What it leaves behind
// must not keep float slots.
TEST_F(FloatPath, SlotsOfForgottenFragmentsAreFreed) {
  for (std::uint64_t s = 0; s < 4; ++s) overflow(s);  // two hold slots, two wait
  h_.gradient(kTestSwitch, {.sequence = 7, .ranks = RankSet::first(2)});
  for (std::uint64_t s = 15; s <= 31; s += 8) {
    h_.gradient(kTestSwitch, {.sequence = s, .ranks = RankSet::first(2)});
  }
  h_.out.clear();
  overflow(32);
  overflow(33);
  EXPECT_EQ(h_.take(PacketType::kNack).size(), 2u);
}

TEST_F(FloatPath, RequestsOfForgottenFragmentsLeaveTheQueue) {
  for (std::uint64_t s : {7, 6, 0, 1, 2, 3, 4}) overflow(s);  // 7 and 6 hold the slots
  for (std::uint64_t s : {5, 13}) {
    h_.gradient(kTestSwitch, {.sequence = s, .ranks = RankSet::first(2)});
  }
  for (std::uint64_t s : {8, 9, 10, 11, 12}) overflow(s);
  for (std::uint64_t s = 14; s < 22; ++s) overflow(s);
  EXPECT_EQ(h_.count(ServerCounter::kFragmentsWaitedForFloatSlot), 18u);
}

}  // namespace
}  // namespace atp
