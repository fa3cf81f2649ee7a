#include <gtest/gtest.h>

#include <string>

#include "atp/core/server/server_harness.h"

// What a GRADIENT does to its fragment (docs/inside/protocol §6).

namespace atp {
namespace {

using Values = std::vector<std::int32_t>;
using std::chrono::milliseconds;

TEST(Aggregation, ACompleteSumFromASwitchIsAnsweredAtOnceToAllBehindIt) {
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
  EXPECT_EQ(sent[0].header.next_index, kTestIndex & ATP_INDEX_BITS);
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
    ASSERT_EQ(sent.size(), 3u) << "one per child";
    for (const Sent& s : sent) EXPECT_EQ(s.values(), (Values{7, -300}));
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

// The rows of docs/inside/protocol §6. Before each, sequence 3 has the contributions of ranks 0 and
// 1, and sequences 0 … 2 are complete.
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

TEST(Aggregation, APacketThatContributesNothingIsDroppedUnderItsOwnName) {
  constexpr std::uint8_t kResend = ATP_FLAG_RESEND;
  const std::vector<Row> rows = {
      {"a duplicate", kTestSwitch, packet_of(3, ranks({1})), ServerCounter::kDropDuplicate, {}},
      {"a duplicate sum",
       kTestSwitch,
       packet_of(3, ranks({0, 1})),
       ServerCounter::kDropDuplicate,
       {}},
      {"an overlap makes the server ask for the missing ranks, past all switches",
       kTestSwitch,
       packet_of(3, ranks({1, 2})),
       ServerCounter::kDropOverlap,
       {PacketType::kNack}},
      {"a repeat of a complete fragment gets its PARAMETER",
       kTestSwitch,
       packet_of(2, ranks({1}), kResend),
       ServerCounter::kDropComplete,
       {PacketType::kParameter}},
      {"another operation is announced to all",
       kTestSwitch,
       packet_of(3, ranks({2}), 0, kTestOperation + 1),
       ServerCounter::kDropWrongOperation,
       {PacketType::kStatus}},
      {"another operation of a complete fragment",
       kTestSwitch,
       packet_of(2, ranks({2}), 0, kTestOperation + 1),
       ServerCounter::kDropWrongOperation,
       {}},
      {"a float without a request",
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

    // The packet has changed nothing.
    h.gradient(kTestSwitch, {3, ranks({2, 3}), {1, 2}});
    const auto parameters = h.take(PacketType::kParameter);
    ASSERT_EQ(parameters.size(), 1u);
    EXPECT_EQ(parameters[0].values(), (Values{11, 22}));
  }
}

TEST(Aggregation, FragmentsThatAllWorkersProvablyHoldAreForgotten) {
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

TEST(Aggregation, ASumOfMoreRanksReplacesOneOfFewerWithItsFlagsAndMagnitude) {
  ServerHarness h = ServerHarness::behind_switch(3);
  h.gradient(kTestSwitch, {.ranks = ranks({0}), .values = {1, 1}, .magnitude = 0x7fffffff});
  h.gradient(kTestSwitch, {.ranks = ranks({0, 1}), .values = {30, 40}, .magnitude = 9});
  h.gradient(kTestSwitch, {.ranks = ranks({2}), .values = {1, 2}, .magnitude = 5});
  const auto sent = h.take(PacketType::kParameter);
  ASSERT_EQ(sent.size(), 1u) << "the magnitude that was replaced does not count";
  EXPECT_EQ(sent[0].values(), (Values{31, 42}));
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
  EXPECT_EQ(sent[0].header.next_index, atp_fmix32(kTestIndex + 1) & ATP_INDEX_BITS);
}

TEST(Aggregation, WithoutRehashNothingMoves) {
  ServerConfig config = ServerHarness::small_config();
  config.rehash = false;
  ServerHarness h = ServerHarness::behind_switch(2, config);
  h.gradient(kTestSwitch, {.ranks = RankSet::first(2), .flags = ATP_FLAG_COLLISION});
  const auto sent = h.take(PacketType::kParameter);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].header.next_index, kTestIndex & ATP_INDEX_BITS);
}

// Workers with different next indices would never meet again.
TEST(Aggregation, TheNextIndexIsFrozenWhenTheFragmentCompletes) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.gradient(kTestSwitch, {.ranks = RankSet::first(2)});
  h.out.clear();
  h.now += milliseconds(20);
  h.gradient(kTestSwitch, {.ranks = ranks({1}), .flags = ATP_FLAG_COLLISION | ATP_FLAG_RESEND});
  const auto sent = h.take(PacketType::kParameter);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].header.next_index, kTestIndex & ATP_INDEX_BITS);
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

TEST(Aggregation, AContributionOfAnotherLengthThanTheFragmentsFirstIsDropped) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.gradient(kTestSwitch, {.ranks = ranks({0}), .values = {3, 4}});
  h.gradient(kTestSwitch, {.ranks = ranks({1}), .values = {3}});
  EXPECT_EQ(h.count(ServerCounter::kDropWrongShape), 1u);
  EXPECT_EQ(h.count(ServerCounter::kFragmentsCompleted), 0u);
  h.gradient(kTestSwitch, {.ranks = ranks({1}), .values = {3, 4}});
  EXPECT_EQ(h.count(ServerCounter::kFragmentsCompleted), 1u);
}

}  // namespace
}  // namespace atp
