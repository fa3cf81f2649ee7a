#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "atp/core/server/server_harness.h"

// Fragments that overflowed (docs/inside/protocol §6, *Overflow*).

namespace atp {
namespace {

using std::chrono::milliseconds;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

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

TEST_F(FloatPath, AMagnitudeBeyondInt32IsAnOverflowWhereverItWasAdded) {
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

TEST_F(FloatPath, NanReachesTheWorkersUnchanged) {
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

// A rank that lost its NACK would send integers forever.
TEST_F(FloatPath, AnIntegerPacketInFloatModeGetsTheNackAgain) {
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

TEST_F(FloatPath, TheServerRepeatsItsNackOnATimer) {
  overflow(0);
  send_float(0, 0, {1, 2});
  h_.out.clear();
  h_.advance(milliseconds(300));
  const auto sent = h_.take(PacketType::kNack);
  ASSERT_GE(sent.size(), 2u);
  ASSERT_LE(sent.size(), 5u) << "the timer backs off";
  EXPECT_EQ(h_.count(ServerCounter::kFlushes), 0u) << "no switch holds floats";
  for (const Sent& s : sent) {
    EXPECT_EQ(s.header.flags, ATP_FLAG_FLOAT);
    EXPECT_EQ(s.ranks, ranks({1}));
  }
}

TEST_F(FloatPath, OverflowsBeyondTheSlotsWaitForTheirNack) {
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

TEST_F(FloatPath, NobodyIsLateWithFloatsThatWereAskedForJustNow) {
  for (std::uint64_t s : {1, 2, 0}) overflow(s);
  h_.advance(std::chrono::seconds(2));
  for (Rank r : {0, 1}) send_float(1, r, {1, 1});
  EXPECT_TRUE(h_.summary().waited_for.empty()) << "fragment 0 has only just got its slot";
  EXPECT_FALSE(h_.summary().stuck);
  h_.advance(milliseconds(300));
  EXPECT_EQ(h_.summary().waited_for, ranks({0, 1}));
}

// Two fragments hold the slots, but their NACKs were lost; `waiting` fragments of lower sequences
// wait.
std::set<std::uint64_t> asked_again_behind(std::uint64_t waiting) {
  ServerConfig config = ServerHarness::small_config();
  config.wmax = 1024;
  ServerHarness h = ServerHarness::behind_switch(2, config);
  const auto overflow = [&](std::uint64_t sequence) {
    h.gradient(kTestSwitch,
               {.sequence = sequence, .ranks = RankSet::first(2), .flags = ATP_FLAG_OVERFLOW});
  };
  for (const std::uint64_t holder : {waiting, waiting + 1}) overflow(holder);
  for (std::uint64_t sequence = 0; sequence < waiting; ++sequence) overflow(sequence);
  h.out.clear();
  h.advance(milliseconds(100));
  std::set<std::uint64_t> asked;
  for (const Sent& s : h.take(PacketType::kNack)) asked.insert(s.header.sequence);
  return asked;
}

TEST(FloatSlots, TheirHoldersAreAskedAgainHoweverManyWait) {
  for (const std::uint64_t waiting : {100, 300, 1000}) {
    SCOPED_TRACE(waiting);
    EXPECT_EQ(asked_again_behind(waiting), (std::set<std::uint64_t>{waiting, waiting + 1}));
  }
}

// Two slots, and floats from the start: a fragment that holds up a rank's window must not wait for
// later ones.
class ExactFragments : public FloatPath {
 protected:
  void send(std::uint64_t sequence, Rank rank, float value) {
    h_.gradient(worker_endpoint(rank), {.sequence = sequence,
                                        .ranks = RankSet::of(rank),
                                        .values = float_values({value, 1}),
                                        .flags = ATP_FLAG_FLOAT | ATP_FLAG_DIRECT,
                                        .kind = ATP_KIND_SUM_EXACT});
  }
  // The sums that have been sent, by sequence.
  std::map<std::uint64_t, float> sums() {
    std::map<std::uint64_t, float> sums;
    for (const Sent& s : h_.take(PacketType::kParameter)) {
      sums[s.header.sequence] = s.floats()[0];
    }
    return sums;
  }
};

TEST_F(ExactFragments, AnEarlierOneTakesTheSlotOfTheLastWhichIsQueuedAgain) {
  send(5, 0, 1);
  send(6, 0, 2);
  send(4, 1, 4);
  send(4, 0, 8);
  const auto sent = h_.take();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].floats()[0], 12);
  EXPECT_EQ(sent[1].type(), PacketType::kNack);
  EXPECT_EQ(sent[1].header.sequence, 6u);
  EXPECT_EQ(sent[1].ranks, RankSet::first(2)) << "rank 0's contribution was given up";
  for (const Rank rank : {0, 1}) send(6, rank, 2);
  send(5, 1, 1);
  EXPECT_EQ(sums(), (std::map<std::uint64_t, float>{{5, 2}, {6, 4}}));
}

TEST_F(ExactFragments, AWaitingOneTakesTheSlotThatALaterOneGotBeforeIt) {
  send(0, 0, 1);
  send(1, 0, 1);
  send(5, 0, 1);
  send(4, 0, 1);
  send(0, 1, 1);  // its slot goes to 5, which came first
  EXPECT_EQ(h_.take(PacketType::kNack)[0].header.sequence, 5u);
  send(4, 1, 8);  // all that the rank's window allows
  const auto asked = h_.take(PacketType::kNack);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].header.sequence, 4u);
  send(4, 0, 1);
  EXPECT_EQ(sums(), (std::map<std::uint64_t, float>{{4, 9}}));
}

// Two slots, two streams and two ranks. An operation on stream 1 holds both slots. Rank 1 has not
// begun it: it waits for an earlier operation on stream 0.
class FloatsOfTwoStreams : public testing::Test {
 protected:
  FloatsOfTwoStreams() { set_up(); }
  void set_up() {
    h_ = ServerHarness();
    h_.stream_count = 2;
    h_.join_all(2, true);
    for (const std::uint64_t sequence : {0, 1}) send(1, sequence, 0);
    h_.out.clear();
  }
  void send(std::uint16_t stream, std::uint64_t sequence, Rank rank) {
    h_.gradient(worker_endpoint(rank), {.sequence = sequence,
                                        .ranks = RankSet::of(rank),
                                        .values = float_values({1, 1}),
                                        .flags = ATP_FLAG_FLOAT | ATP_FLAG_DIRECT,
                                        .stream = stream,
                                        .kind = ATP_KIND_SUM_EXACT});
  }
  // The fragments, as stream and sequence, that all ranks were asked for.
  std::vector<std::pair<int, int>> asked() {
    std::vector<std::pair<int, int>> result;
    for (const Sent& s : h_.take(PacketType::kNack)) {
      if (s.ranks == RankSet::first(2)) result.emplace_back(s.header.stream, s.header.sequence);
    }
    return result;
  }
  using Asked = std::vector<std::pair<int, int>>;

  ServerHarness h_;
};

// Its own bitmap means nothing: it only remembers that rank 0 is ready.
TEST_F(FloatsOfTwoStreams, AFragmentWithoutASlotNamesTheRanksThatHoldUpThoseWithOne) {
  send(0, 0, 0);
  h_.advance(milliseconds(1100));
  std::set<int> streams;
  for (const Sent& s : h_.take(StatusCode::kWaitingFor)) {
    streams.insert(s.header.stream);
    EXPECT_EQ(s.status().about, RankSet::of(1)) << "stream " << s.header.stream;
  }
  EXPECT_EQ(streams, (std::set<int>{0, 1}));
}

TEST_F(FloatsOfTwoStreams, AFragmentThatAllHaveSentTakesTheSlotOfOneThatSomeRankHasNot) {
  for (const Rank rank : {0, 1}) send(0, 0, rank);
  h_.now += milliseconds(100);
  EXPECT_EQ(asked(), Asked());
  send(0, 0, 1);
  EXPECT_EQ(asked(), (Asked{{0, 0}}));
  send(0, 0, 0);
  const auto sent = h_.take();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].type(), PacketType::kParameter);
  EXPECT_EQ(sent[0].floats()[0], 2);
  EXPECT_EQ(sent[1].type(), PacketType::kNack) << "the slot goes back to the one that gave it up";
  EXPECT_EQ(sent[1].header.stream, 1u);
  EXPECT_EQ(sent[1].header.sequence, 1u);
}

TEST_F(FloatsOfTwoStreams, AFragmentThatSomeRankHasNotSentTakesNoSlot) {
  send(0, 0, 0);
  h_.now += milliseconds(1000);
  send(0, 0, 0);
  EXPECT_EQ(asked(), Asked());
}

TEST_F(FloatsOfTwoStreams, AFragmentThatHasNotWaitedLongTakesNoSlot) {
  for (const Rank rank : {0, 1}) send(0, 0, rank);
  h_.now += milliseconds(99);
  send(0, 0, 1);
  EXPECT_EQ(asked(), Asked());
}

TEST_F(FloatsOfTwoStreams, AFragmentBehindTheOldestOfItsStreamTakesNoSlot) {
  for (const Rank rank : {0, 1}) send(0, 1, rank);
  h_.now += milliseconds(1000);
  for (const Rank rank : {0, 1}) send(0, 1, rank);
  EXPECT_EQ(asked(), Asked());
}

// Otherwise two fragments that all can send could take slots from each other forever.
TEST_F(FloatsOfTwoStreams, AFragmentThatAllHaveSentKeepsItsSlot) {
  for (const Rank rank : {0, 1}) send(0, 0, rank);
  h_.now += milliseconds(100);
  send(0, 0, 1);
  EXPECT_EQ(asked(), (Asked{{0, 0}})) << "with the slot of sequence 1 of stream 1";
  send(1, 0, 1);  // completes; its slot goes to sequence 1 in turn
  EXPECT_EQ(asked(), (Asked{{1, 1}}));
  for (const Rank rank : {0, 1}) send(0, 1, rank);
  for (const Rank rank : {0, 1}) send(1, 2, rank);
  h_.now += milliseconds(100);
  for (const Rank rank : {0, 1}) send(1, 2, rank);
  EXPECT_EQ(asked(), Asked()) << "behind sequence 1, the oldest of its stream";
  for (const Rank rank : {0, 1}) send(1, 1, rank);
  EXPECT_EQ(asked(), (Asked{{0, 1}})) << "first come, first served";
  send(1, 2, 0);
  EXPECT_EQ(asked(), Asked()) << "all can send sequences 0 and 1 of stream 0";
}

TEST_F(FloatPath, FragmentsThatWaitForASlotFailWhenARankLeaves) {
  for (std::uint64_t s = 0; s < 3; ++s) overflow(s);
  for (std::uint64_t s = 0; s < 2; ++s) send_float(s, 0, {1, 1});
  h_.out.clear();
  h_.leave(kTestSwitch, 0, nonce_of(0));
  EXPECT_EQ(h_.take(StatusCode::kLeft).size(), 2u)
      << "the acknowledgement, and one to the other rank";
}

// What a rank sent may not have been kept, but the rank did begin the operation.
TEST_F(FloatsOfTwoStreams, AMismatchNamesTheRanksWhoseValuesWereNotKept) {
  struct Row {
    const char* name;
    std::function<void()> happens;
    std::uint64_t sequence;  // of the fragment of stream 0 that then disagrees
  };
  const auto overflow = [&] {
    h_.gradient(kTestSwitch, {.ranks = RankSet::first(2), .flags = ATP_FLAG_OVERFLOW});
  };
  const auto complete_stream_1 = [&] {
    for (const std::uint64_t sequence : {0, 1}) send(1, sequence, 1);
  };
  const Row rows[] = {
      {"floats from the start that wait for a slot", [&] { send(0, 0, 0); }, 0},
      {"floats that waited, and have been asked for again",
       [&] {
         send(0, 0, 0);
         complete_stream_1();
       },
       0},
      {"floats that lost their slot to an earlier fragment",
       [&] {
         complete_stream_1();
         for (const std::uint64_t sequence : {5, 4, 3}) send(0, sequence, 0);
       },
       5},
      {"integers that overflowed, and wait for a slot", [&] { overflow(); }, 0},
      {"integers that overflowed, and whose floats have been asked for",
       [&] {
         overflow();
         complete_stream_1();
       },
       0},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    set_up();
    row.happens();
    h_.gradient(worker_endpoint(1),
                {.sequence = row.sequence, .ranks = ranks({1}), .operation = kTestOperation + 1});
    const auto said = h_.take(StatusCode::kOperationMismatch);
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(said[0].status().about, ranks({0}));
    EXPECT_EQ(said[0].status().other, ranks({1}));
  }
}

TEST_F(FloatPath, FloatsOfSeveralRanksAreDropped) {
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

// A member that breaks the rules may complete fragments beyond its window. The fragments forgotten
// because of that must not keep float slots.
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
