#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "atp/core/server/server_harness.h"

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// H7: the contribution that the switch waits for is already at the server, so nobody will send it.
TEST(StalledFragments, AreFlushedFromTheSwitchWithoutAnyWorkersTimer) {
  ServerHarness h = ServerHarness::behind_switch(3);
  h.gradient(kTestSwitch, {.ranks = ranks({0}), .flags = ATP_FLAG_COLLISION});
  h.advance(milliseconds(24));
  EXPECT_TRUE(h.take().empty());
  h.advance(milliseconds(2));
  auto sent = h.take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].type(), PacketType::kFlush);
  EXPECT_EQ(sent[0].to, kTestSwitch);
  EXPECT_EQ(sent[0].ranks, ranks({1, 2}));
  EXPECT_EQ(sent[0].header.aggregator_index, kTestIndex);
  EXPECT_EQ(sent[0].header.operation, kTestOperation);
  EXPECT_EQ(sent[0].header.flags, 0);

  h.gradient(kTestSwitch, {.ranks = ranks({1}), .flags = ATP_FLAG_RESEND});
  h.advance(milliseconds(15));
  sent = h.take();
  ASSERT_EQ(sent.size(), 1u) << "the flushed sum had time to arrive";
  EXPECT_EQ(sent[0].type(), PacketType::kNack);
  EXPECT_EQ(sent[0].ranks, ranks({2}));
  EXPECT_EQ(sent[0].header.flags, 0);

  h.gradient(kTestSwitch, {.ranks = ranks({2})});
  EXPECT_EQ(h.take(PacketType::kParameter).size(), 1u);
  h.advance(milliseconds(500));
  EXPECT_TRUE(h.take().empty());
  EXPECT_GE(h.server.next_timeout(), h.now + milliseconds(100)) << "no timer runs while idle";
}

// Rank 2 has no switch.
TEST(StalledFragments, AreFlushedOnlyFromSwitchesWhileWorkersGetNacks) {
  const Endpoint elsewhere = Endpoint::ipv4(10, 0, 9, 9, 999);
  const struct {
    const char* name;
    std::optional<Endpoint> straight;  // where rank 2's last straight JOIN comes from
  } rows[] = {
      {"its straight JOINs come from the same address", worker_endpoint(2)},
      {"its straight JOINs are lost", std::nullopt},
      {"only its straight JOIN has come from its new address", elsewhere},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    ServerHarness h;
    for (const Rank rank : {0, 1}) h.join_rank(rank, 3, true);
    TestJoin one = h.join_of(2, 3, false);
    h.join(worker_endpoint(2), one);
    one.flags = ATP_FLAG_DIRECT;
    if (row.straight) h.join(*row.straight, one);
    h.take();
    h.gradient(kTestSwitch, {.ranks = ranks({0}), .flags = ATP_FLAG_COLLISION});
    h.advance(milliseconds(40));
    const auto sent = h.take();
    ASSERT_EQ(sent.size(), 3u);
    EXPECT_EQ(sent[0].type(), PacketType::kFlush);
    EXPECT_EQ(sent[0].to, kTestSwitch);
    EXPECT_EQ(sent[1].type(), PacketType::kNack);
    EXPECT_EQ(sent[2].type(), PacketType::kNack);
  }
}

TEST(StalledFragments, AnOvertakenFragmentIsAskedForEvenIfNothingOfItArrived) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.gradient(kTestSwitch, {.sequence = 1, .ranks = RankSet::first(2)});
  h.out.clear();
  h.advance(milliseconds(100));
  const auto sent = h.take();
  ASSERT_GE(sent.size(), 2u);
  EXPECT_EQ(sent[0].type(), PacketType::kFlush);
  EXPECT_EQ(sent[1].type(), PacketType::kNack);
  for (const Sent& s : sent) {
    EXPECT_EQ(s.header.sequence, 0u);
    EXPECT_EQ(s.ranks, RankSet::first(2));
    EXPECT_EQ(s.header.operation, 0u)
        << "any operation: it may differ from that of the fragment that overtook it";
    EXPECT_EQ(s.header.aggregator_index,
              atp_fmix32(atp_fmix32(atp_fmix32(kTestJob.job) ^ kTestJob.incarnation)));
  }
}

TEST(StalledFragments, WhatHasNotArrivedIsAskedForWhereAParameterHasMovedIt) {
  for (const std::uint8_t flags : {0, int{ATP_FLAG_COLLISION}}) {
    SCOPED_TRACE(int{flags});
    ServerHarness h = ServerHarness::behind_switch(2);
    const std::uint64_t wmax = ServerHarness::small_config().wmax;
    const auto complete = [&](std::uint64_t sequence) {
      h.gradient(kTestSwitch, {.sequence = sequence, .ranks = RankSet::first(2), .flags = flags});
      return h.take(PacketType::kParameter).at(0).header.next_index;
    };
    const std::uint32_t next = complete(0);
    for (std::uint64_t sequence = 1; sequence < wmax; ++sequence) complete(sequence);
    complete(wmax + 1);
    h.advance(milliseconds(100));
    const auto sent = h.take();
    ASSERT_GE(sent.size(), 2u);
    for (const Sent& s : sent) {
      EXPECT_EQ(s.header.sequence, wmax);
      EXPECT_EQ(s.header.aggregator_index, next) << "the workers know no other bits of it";
    }
  }
}

TEST(StalledFragments, AFragmentThatWaitsInTheSwitchForASlowPeerIsLeftAlone) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.gradient(kTestSwitch, {.sequence = 0, .ranks = RankSet::first(2)});
  h.out.clear();
  // Nothing of sequence 1 has arrived, half of 2 has because it collided, and none later is
  // complete.
  h.gradient(kTestSwitch, {.sequence = 2, .ranks = ranks({0}), .flags = ATP_FLAG_COLLISION});
  h.advance(milliseconds(500));
  for (const Sent& s : h.take()) EXPECT_EQ(s.header.sequence, 2u);
}

TEST(StalledFragments, WithoutASwitchTheMissingRanksGetANackAtOnce) {
  ServerHarness h = ServerHarness::flat(3);
  h.gradient(worker_endpoint(0), {.ranks = ranks({0})});
  h.advance(milliseconds(40));
  const auto sent = h.take();
  ASSERT_EQ(sent.size(), 2u);
  for (const Sent& s : sent) EXPECT_EQ(s.type(), PacketType::kNack);
  EXPECT_EQ(sent[0].to, worker_endpoint(1));
  EXPECT_EQ(sent[1].to, worker_endpoint(2));
}

// A NACK to every child for every stalled fragment is more than an outbox holds at once.
TEST(StalledFragments, NoneIsLostToManyChildren) {
  ServerConfig config = ServerHarness::small_config();
  config.wmax = 64;
  ServerHarness h(config);
  h.join_all(200, false);
  for (std::uint64_t s = 0; s < 64; ++s) {
    TestGradient gradient{.sequence = s, .ranks = ranks({0}), .bitmap_words = 4};
    h.gradient(worker_endpoint(0), gradient);
  }
  h.out = Outbox{400};
  std::map<std::uint64_t, std::size_t> asked;
  for (int i = 0; i < 200; ++i) {
    h.advance(milliseconds(10));
    for (const Sent& s : h.take(PacketType::kNack)) ++asked[s.header.sequence];
  }
  EXPECT_EQ(h.out.lost(), 0u);
  ASSERT_EQ(asked.size(), 64u);
  for (const auto& [sequence, packets] : asked) EXPECT_EQ(packets % 199, 0u) << sequence;
}

TEST(StalledFragments, TheTimerFiresOnlyWhenSomethingIsDue) {
  ServerHarness h = ServerHarness::flat(2);
  h.gradient(worker_endpoint(0), {.ranks = ranks({0})});
  h.advance(seconds(3));
  std::size_t timers = 0;
  for (const Instant end = h.now + seconds(10); h.server.next_timeout() <= end; ++timers) {
    h.now = h.server.next_timeout();
    h.join_rank(0, 2, false);  // otherwise the leases end
    h.join_rank(1, 2, false);
    h.server.handle_timeout(h.now, h.out);
    h.out.clear();
  }
  EXPECT_LE(timers, 45u) << "a NACK and a *waiting for* per second, and the leases";
}

// Operations of different kinds run on different streams and share no fragment.
struct Crossed : ::testing::Test {
  ServerHarness h{long_lease()};

  // A silent rank stays a member throughout a test.
  static ServerConfig long_lease() {
    ServerConfig config = ServerHarness::small_config();
    config.timing.lease = seconds(60);
    return config;
  }

  Crossed() {
    h.stream_count = 2;
    h.join_all(3, false);
    h.take();
  }

  void contribute(Rank rank, std::uint16_t stream, std::uint64_t sequence = 0) {
    h.gradient(worker_endpoint(rank), {.sequence = sequence,
                                       .ranks = RankSet::of(rank),
                                       .operation = 100u + stream,
                                       .stream = stream});
  }
  // The mismatches announced within `time`, while the ranks `living` keep joining.
  std::vector<Sent> mismatches_in(std::chrono::seconds time, std::initializer_list<int> living) {
    std::vector<Sent> said;
    for (const Instant end = h.now + time; h.now < end;) {
      for (const int rank : living) h.join_rank(static_cast<Rank>(rank), 3, false);
      h.advance(milliseconds(500));
      for (const Sent& s : h.take(StatusCode::kOperationMismatch)) said.push_back(s);
    }
    return said;
  }
};

TEST_F(Crossed, TwoOperationsEachWaitingForTheOthersRanksAreAMismatch) {
  contribute(0, 0);
  contribute(1, 0);
  contribute(2, 1);
  EXPECT_TRUE(mismatches_in(seconds(5), {0, 1, 2}).empty()) << "it may be loss";
  const std::vector<Sent> said = mismatches_in(seconds(3), {0, 1, 2});
  ASSERT_FALSE(said.empty());
  for (const Sent& s : said) {
    const bool first = s.header.stream == 0;
    EXPECT_EQ(s.header.operation, first ? 100u : 101u);
    EXPECT_EQ(s.status().about, first ? ranks({0, 1}) : ranks({2}));
    EXPECT_EQ(s.status().other, first ? ranks({2}) : ranks({0, 1}));
  }
}

TEST_F(Crossed, ARankLateInBothOperationsIsWaitedFor) {
  contribute(0, 0);
  contribute(1, 0);
  contribute(1, 1);
  EXPECT_TRUE(mismatches_in(seconds(20), {0, 1, 2}).empty());
}

TEST_F(Crossed, ASilentRankMayHaveSubmittedBoth) {
  contribute(0, 0);
  contribute(1, 0);
  contribute(2, 1);
  EXPECT_TRUE(mismatches_in(seconds(20), {0, 1}).empty());
}

TEST_F(Crossed, OperationsThatMakeProgressAreNoMismatch) {
  for (std::uint64_t sequence = 0; sequence < 8; ++sequence) {
    contribute(0, 0, sequence);
    contribute(1, 0, sequence);
    contribute(2, 1, sequence);
    EXPECT_TRUE(mismatches_in(seconds(4), {0, 1, 2}).empty());
    contribute(2, 0, sequence);
    contribute(0, 1, sequence);
    contribute(1, 1, sequence);
  }
}

// Rank 1 is late in one stream only because it waits in the other one.
TEST_F(Crossed, OnlyTheRankThatAllStreamsWaitForIsNamed) {
  contribute(0, 1);
  h.advance(milliseconds(100));
  contribute(0, 0);
  contribute(1, 0);
  h.take();
  h.advance(milliseconds(1500));
  const std::vector<Sent> said = h.take(StatusCode::kWaitingFor);
  ASSERT_FALSE(said.empty());
  for (const Sent& s : said) EXPECT_EQ(s.status().about, ranks({2}));
}

TEST_F(Crossed, ADisagreementIsAnnouncedEachSecondInCaseItWasLost) {
  contribute(0, 0);
  h.gradient(worker_endpoint(1), {.sequence = 0, .ranks = ranks({1}), .operation = 200});
  ASSERT_FALSE(h.take(StatusCode::kOperationMismatch).empty());
  for (int second = 1; second <= 3; ++second) {
    const std::vector<Sent> said = mismatches_in(seconds(1), {0, 1, 2});
    ASSERT_FALSE(said.empty()) << "second " << second;
    for (const Sent& s : said) {
      EXPECT_EQ(s.status().about | s.status().other, ranks({0, 1}));
    }
  }
}

TEST(StalledFragments, ASlowPeerCostsABoundedNumberOfPackets) {
  ServerConfig config = ServerHarness::small_config();
  config.wmax = 1024;
  ServerHarness h(config);
  h.join_all(2, false);
  for (std::uint64_t s = 0; s < 1024; ++s) {
    h.gradient(worker_endpoint(0), {.sequence = s, .ranks = ranks({0})});
  }
  h.out.clear();
  h.advance(seconds(2));
  const std::size_t packets = h.take(PacketType::kNack).size();
  EXPECT_GT(packets, 0u);
  EXPECT_LE(packets, 64u * 8);
}

// Rank 0 says what it calls the operation of a fragment.
void describe(ServerHarness& h, const Endpoint& from, std::string_view text,
              std::uint32_t operation = kTestOperation) {
  h.status(from, 0, StatusMessage{.code = StatusCode::kOperation, .cause = CauseText(text)},
           operation);
}

TEST(StalledFragments, AnOperationThatWaitsIsAnnouncedAtOnceByTheNameThatARankGivesIt) {
  ServerHarness h = ServerHarness::behind_switch(3);
  h.gradient(kTestSwitch, {.sequence = 0, .ranks = ranks({0, 1})});
  h.advance(milliseconds(1100));
  for (const Sent& s : h.take(StatusCode::kWaitingFor)) EXPECT_EQ(s.status().cause.view(), "");
  describe(h, worker_endpoint(0), "sum #17");
  describe(h, worker_endpoint(0), "sum #18");
  h.advance(milliseconds(1));
  const auto said = h.take(StatusCode::kWaitingFor);
  ASSERT_EQ(said.size(), 1u);
  for (const Sent& s : said)
    EXPECT_EQ(s.status().cause.view(), "sum #17") << "the first one counts";
  h.server.for_each_job(h.now, [](const JobSummary& job) {
    ASSERT_TRUE(job.stuck);
    EXPECT_EQ(job.stuck_operation.view(), "sum #17");
  });
  h.advance(milliseconds(500));
  EXPECT_TRUE(h.take(StatusCode::kWaitingFor).empty()) << "then once a second again";
  EXPECT_EQ(h.count(ServerCounter::kDescriptions), 2u);
}

TEST(StalledFragments, ADescriptionOfWhatDoesNotWaitIsDropped) {
  ServerHarness h = ServerHarness::behind_switch(3);
  h.gradient(kTestSwitch, {.sequence = 0, .ranks = ranks({0, 1})});
  describe(h, worker_endpoint(0), "too early");
  h.advance(milliseconds(1100));
  describe(h, worker_endpoint(0), "another operation", kTestOperation + 1);
  EXPECT_EQ(h.count(ServerCounter::kDropNotAwaited), 2u);
  describe(h, worker_endpoint(1), "of another rank");
  describe(h, kTestSwitch, "through the tree");
  EXPECT_EQ(h.count(ServerCounter::kDropWrongSource), 2u);
  EXPECT_EQ(h.count(ServerCounter::kDescriptions), 0u);
}

TEST(StalledFragments, AllAreToldEachSecondWhomTheOldestWaitsFor) {
  ServerHarness h = ServerHarness::behind_switch(3);
  h.gradient(kTestSwitch, {.sequence = 0, .ranks = ranks({0, 1})});
  h.gradient(kTestSwitch, {.sequence = 1, .ranks = ranks({0})});
  h.advance(milliseconds(900));
  EXPECT_TRUE(h.take(StatusCode::kWaitingFor).empty());
  h.advance(milliseconds(2300));
  const auto sent = h.take(StatusCode::kWaitingFor);
  ASSERT_EQ(sent.size(), 3u);
  for (const Sent& s : sent) {
    EXPECT_EQ(s.ranks, RankSet::first(3));
    EXPECT_EQ(s.header.sequence, 0u);
    EXPECT_EQ(s.header.operation, kTestOperation);
    EXPECT_EQ(s.status().about, ranks({2}));
    ASSERT_EQ(s.status().endpoint_count, 1u);
    EXPECT_EQ(s.status().endpoints[0], worker_endpoint(2));
  }
}

}  // namespace
}  // namespace atp
