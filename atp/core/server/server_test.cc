#include "atp/core/server/server.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "atp/base/random.h"
#include "atp/core/server/server_harness.h"

namespace atp {

std::uint64_t allocations_so_far();  // counting_new_test.cc

namespace {

using std::chrono::milliseconds;

TEST(Server, AnUnknownJobOrStreamIsToldToJoinOncePerPause) {
  struct Row {
    std::string name;
    JobKey job;
    std::uint16_t stream;
    ServerCounter counter;
  };
  const Row rows[] = {
      {"an unknown job", {99, 22}, 0, ServerCounter::kDropUnknownJob},
      {"a stale incarnation", {11, 21}, 0, ServerCounter::kDropForeignIncarnation},
      {"a stream that no rank joined", kTestJob, 1, ServerCounter::kDropUnknownStream},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    ServerHarness h = ServerHarness::behind_switch(2);
    TestGradient g{.ranks = ranks({0, 1})};
    g.job = row.job;
    g.stream = row.stream;
    for (int i = 0; i < 5; ++i) h.gradient(kStranger, g);
    EXPECT_EQ(h.count(row.counter), 5u);
    auto sent = h.take();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].to, kStranger);
    EXPECT_EQ(sent[0].ranks, ranks({0, 1}));
    EXPECT_EQ(sent[0].header.job, row.job.job);
    EXPECT_EQ(sent[0].header.incarnation, row.job.incarnation);
    EXPECT_EQ(sent[0].status().code, StatusCode::kUnknownJob);
    h.now += milliseconds(10);
    h.gradient(kStranger, g);
    EXPECT_EQ(h.take().size(), 1u);
  }
}

TEST(Server, AnUnknownRankBehindTheSenderIsToldToJoin) {
  ServerHarness h;
  h.join_rank(0, 2, true);  // the server is new, rank 1 has not joined again
  h.gradient(kTestSwitch, {.ranks = ranks({0, 1})});
  const auto sent = h.take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].status().code, StatusCode::kUnknownJob);
  EXPECT_EQ(sent[0].ranks, ranks({1}));
}

// The rank was acknowledged, so its job had begun; this server no longer has that job.
TEST(Server, AMemberOfAForgottenJobIsToldAndDoesNotJoin) {
  constexpr std::uint64_t kOwnLife = 4242;
  struct Row {
    std::string name;
    bool another_start_joins;
    std::uint64_t boot_id;
    StatusCode answer;
  };
  const Row rows[] = {
      {"the server restarted", false, 99, StatusCode::kServerRestarted},
      {"the server restarted, and another incarnation joins", true, 99,
       StatusCode::kServerRestarted},
      {"all leases had ended", false, kOwnLife, StatusCode::kLeaseEnded},
      {"all leases had ended, and another incarnation joins", true, kOwnLife,
       StatusCode::kLeaseEnded},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    ServerHarness h;
    if (row.another_start_joins) h.join_rank(0, 3, true);
    const std::size_t jobs = h.server.job_count();
    TestJoin join = h.join_of(1, 3, true);
    join.body.server_boot_id = row.boot_id;
    h.join(kTestSwitch, join);
    const auto sent = h.take();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].to, kTestSwitch);
    EXPECT_EQ(sent[0].ranks, ranks({1}));
    EXPECT_EQ(sent[0].status().code, row.answer);
    EXPECT_EQ(sent[0].status().about, ranks({1}));
    EXPECT_EQ(sent[0].status().nonce, nonce_of(1));
    EXPECT_EQ(h.server.job_count(), jobs);
    EXPECT_EQ(h.count(ServerCounter::kDropForgotten), 1u);
  }
}

TEST(Server, AMemberOfARunningJobIsAcknowledgedAgain) {
  ServerHarness h = ServerHarness::behind_switch(2);
  TestJoin join = h.join_of(1, 2, true);
  join.body.server_boot_id = 4242;
  h.join(kTestSwitch, join);
  EXPECT_EQ(h.take(PacketType::kJoinAck).size(), 1u);
}

TEST(Server, AnUnknownVersionIsAnsweredWithTheSupportedVersions) {
  ServerHarness h;
  std::vector<std::uint8_t> bytes =
      bytes_of({.ranks = ranks({0}), .values = {1, 2, 3, 4, 5, 6, 7}});
  bytes[0] = 9;
  h.receive(kStranger, bytes);
  EXPECT_TRUE(h.take().empty()) << "an answer would be larger than the packet";
  bytes.resize(80);
  h.receive(kStranger, bytes);
  h.receive(kStranger, bytes);
  const auto sent = h.take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].status().code, StatusCode::kVersions);
  EXPECT_EQ(sent[0].status().reason, 0x0202);
  EXPECT_EQ(sent[0].header.job, kTestJob.job);
  EXPECT_EQ(h.count(ServerCounter::kDropUnknownVersion), 3u);
  EXPECT_EQ(h.count(ServerCounter::kStatusVersions), 1u);
}

TEST(Server, EveryMalformedPacketIsCountedUnderItsReason) {
  const std::vector<std::uint8_t> good = bytes_of({.ranks = ranks({0})});
  const auto changed = [&](std::size_t at, std::uint8_t value) {
    auto bytes = good;
    bytes[at] = value;
    return bytes;
  };
  struct Row {
    std::string name;
    std::vector<std::uint8_t> bytes;
    ServerCounter counter;
  };
  auto longer = good;
  longer.push_back(0);
  auto shorter = good;
  shorter.pop_back();
  const std::vector<Row> rows = {
      {"empty", {}, ServerCounter::kDropTooShort},
      {"cut", shorter, ServerCounter::kDropTooShort},
      {"too long", longer, ServerCounter::kDropBadLength},
      {"type", changed(ATP_AT_TYPE, 8), ServerCounter::kDropUnknownType},
      {"flags", changed(ATP_AT_FLAGS, 64), ServerCounter::kDropUnknownFlags},
      {"width", changed(ATP_AT_BITMAP_WORDS, 0), ServerCounter::kDropBadBitmapWidth},
      {"no values", changed(ATP_AT_VALUE_COUNT + 1, 0), ServerCounter::kDropBadValueCount},
      {"a PARAMETER", changed(ATP_AT_TYPE, ATP_PARAMETER), ServerCounter::kDropUnexpectedType},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    ServerHarness h = ServerHarness::behind_switch(2);
    h.receive(kTestSwitch, row.bytes);
    EXPECT_EQ(h.count(row.counter), 1u);
    EXPECT_TRUE(h.take().empty());
  }
}

TEST(Server, ABodyThatIsInvalidForItsTypeIsDropped) {
  for (const std::uint8_t type : {ATP_JOIN, ATP_LEAVE}) {
    ServerHarness h;
    std::vector<std::uint8_t> bytes = bytes_of({.ranks = ranks({0})});
    bytes[ATP_AT_TYPE] = type;
    atp_store16(bytes.data() + ATP_AT_VALUE_COUNT, 0);
    bytes.pop_back();
    h.receive(kStranger, bytes);
    EXPECT_EQ(h.count(ServerCounter::kDropBadBody), 1u);
    EXPECT_EQ(h.server.job_count(), 0u);
  }
}

TEST(Server, EachStreamRangeOfAJobHasItsOwnTree) {
  ServerHarness h;
  for (std::uint16_t first : {0, 1, 5}) {
    TestJoin join = h.join_of(0, 1, false);
    join.body.first_stream = first;
    h.join(worker_endpoint(first), join);
  }
  EXPECT_EQ(h.server.job_count(), 3u);
  h.out.clear();
  h.gradient(worker_endpoint(1), {.ranks = ranks({0}), .stream = 1});
  const auto sent = h.take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, worker_endpoint(1));
  EXPECT_EQ(sent[0].header.stream, 1);
  h.gradient(worker_endpoint(1), {.ranks = ranks({0}), .stream = 5});
  EXPECT_EQ(h.count(ServerCounter::kDropWrongSource), 1u);
  h.gradient(worker_endpoint(1), {.ranks = ranks({0}), .stream = 2});
  EXPECT_EQ(h.count(ServerCounter::kDropUnknownStream), 1u);
}

TEST(Server, DisplaysEachJob) {
  ServerHarness h;
  h.join_rank(0, 3, true);
  h.join_rank(2, 3, true);
  std::vector<JobSummary> jobs;
  h.server.for_each_job(h.now, [&](const JobSummary& s) { jobs.push_back(s); });
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].terms.key, kTestJob);
  EXPECT_TRUE(jobs[0].joining);
  EXPECT_EQ(jobs[0].joined, ranks({0, 2}));
  EXPECT_EQ(jobs[0].missing, ranks({1}));
}

TEST(Server, DisplaysTheProgressOfAJobAndWhoSummed) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.gradient(kTestSwitch, {.sequence = 0, .ranks = ranks({0, 1})});
  h.gradient(kTestSwitch, {.sequence = 1, .ranks = ranks({0})});
  h.gradient(kTestSwitch, {.sequence = 1, .ranks = ranks({1})});
  EXPECT_EQ(h.summary().progress, (AggregationProgress{.fragments = 2, .in_least_packets = 1}));
}

TEST(Server, WhatItSaysOfAFragmentSaysWhoseJobItIs) {
  ServerHarness h;
  const JobKey job{kTestJob.job, kTestJob.incarnation, 3};
  for (const Rank rank : {0, 1}) {
    TestJoin join = h.join_of(rank, 2, true);
    join.job = job;
    h.join(kTestSwitch, join);
  }
  h.take();
  h.gradient(kTestSwitch, {.ranks = ranks({0}), .job = job});
  h.advance(std::chrono::milliseconds(100));  // it asks for what is missing
  h.gradient(kTestSwitch, {.ranks = ranks({1}), .job = job});
  std::set<PacketType> types;
  for (const Sent& sent : h.take()) {
    EXPECT_EQ(sent.header.tenant, 3) << static_cast<int>(sent.type());
    types.insert(sent.type());
  }
  for (const PacketType type : {PacketType::kFlush, PacketType::kNack, PacketType::kParameter}) {
    EXPECT_TRUE(types.contains(type)) << static_cast<int>(type);
  }
}

TEST(Server, ItsStateIsAValue) {
  ServerHarness h = ServerHarness::behind_switch(2);
  h.gradient(kTestSwitch, {.ranks = ranks({0}), .values = {3, 4}});
  Server copy = h.server;
  EXPECT_EQ(copy, h.server);
  h.gradient(kTestSwitch, {.ranks = ranks({1}), .values = {1, 1}});
  EXPECT_FALSE(copy == h.server);
  h.out.clear();
  copy.handle_packet(h.now, kTestSwitch, kTestServer,
                     bytes_of({.ranks = ranks({1}), .values = {1, 1}}), h.out);
  EXPECT_EQ(copy, h.server);
  EXPECT_EQ(h.take()[0].values(), (std::vector<std::int32_t>{4, 5}));
}

// Sums of 65 workers need a second bitmap word (H24).
TEST(Server, CountsWorkersBeyondOneBitmapWord) {
  ServerHarness h = ServerHarness::flat(65);
  for (Rank r = 0; r < 65; ++r) {
    EXPECT_TRUE(h.take(PacketType::kParameter).empty());
    h.gradient(worker_endpoint(r), {.ranks = RankSet::of(r), .bitmap_words = 2});
  }
  const auto sent = h.take(PacketType::kParameter);
  ASSERT_EQ(sent.size(), 65u);
  EXPECT_EQ(sent[64].values(), (std::vector<std::int32_t>{65, 130}));
  h.gradient(worker_endpoint(0), {.sequence = 1, .ranks = ranks({0}), .bitmap_words = 1});
  EXPECT_EQ(h.count(ServerCounter::kDropWrongBitmapWidth), 1u);
}

// Covers everything that a running job does: sums of switches and workers, losses, overlaps,
// repeats, overflow, mismatch, leases and timers.
TEST(Server, NoPacketOfARunningJobAllocates) {
  ServerHarness h = ServerHarness::behind_switch(4);
  std::vector<std::vector<std::uint8_t>> traffic;
  Random random(3);
  for (std::uint64_t s = 0; s < 200; ++s) {
    for (int i = 0; i < 8; ++i) {
      TestGradient g{.sequence = s};
      g.ranks.set_word(0, random.below(16));
      g.flags = random.chance(0.1) ? ATP_FLAG_OVERFLOW : 0;
      if (random.chance(0.01)) g.operation = 1;
      traffic.push_back(bytes_of(g));
    }
    for (Rank r = 0; r < 4; ++r) {
      const std::uint8_t way = ATP_FLAG_DIRECT | ATP_FLAG_RESEND;
      traffic.push_back(bytes_of({.sequence = s, .ranks = RankSet::of(r), .flags = way}));
      traffic.push_back(bytes_of(
          {.sequence = s, .ranks = RankSet::of(r), .flags = ATP_FLAG_DIRECT | ATP_FLAG_FLOAT}));
    }
  }
  const std::uint64_t before = allocations_so_far();
  for (const auto& bytes : traffic) {
    const std::uint64_t word = bytes[ATP_AT_BITMAP + 7];
    const bool straight = (bytes[ATP_AT_FLAGS] & ATP_FLAG_DIRECT) != 0;
    const auto rank = static_cast<Rank>(std::countr_zero(word | 16));
    h.server.handle_packet(h.now, straight ? worker_endpoint(rank) : kTestSwitch, kTestServer,
                           bytes, h.out);
    h.now += milliseconds(1);
    if (h.server.next_timeout() <= h.now) h.server.handle_timeout(h.now, h.out);
    h.out.clear();
  }
  EXPECT_EQ(allocations_so_far(), before);
  EXPECT_GT(h.count(ServerCounter::kFragmentsCompleted), 100u);
  EXPECT_GT(h.count(ServerCounter::kFragmentsCompletedFloat), 0u);
  EXPECT_GT(h.count(ServerCounter::kDropOverlap), 0u);
}

TEST(Server, AnswersAreYouThereToAnybody) {
  ServerHarness h;
  StatusMessage question;
  question.code = StatusCode::kAreYouThere;
  question.nonce = 321;
  Outbox out(1);
  put_status(out, {.job = kTestJob}, ranks({0}), question);
  out.send_to(kStranger);
  const auto bytes = out.bytes_of(out.packets()[0]);
  h.receive(kStranger, {bytes.begin(), bytes.end()});
  const auto sent = h.take(StatusCode::kHere);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, kStranger);
  EXPECT_EQ(sent[0].status().nonce, 321u);
  EXPECT_EQ(h.count(ServerCounter::kQuestions), 1u);
  EXPECT_EQ(h.count(ServerCounter::kStatusHere), 1u);
}

// All ranks behind a switch ask at once, from its address, when their tree is silent.
TEST(Server, TheAnswersToMembersAreNotPacedAsThoseToStrangersAre) {
  for (const bool is_member : {true, false}) {
    ServerHarness h = ServerHarness::behind_switch(4);
    StatusMessage question;
    question.code = StatusCode::kAreYouThere;
    for (int i = 0; i < 100; ++i) {
      Outbox out(1);
      put_status(out, {.job = kTestJob}, ranks({i % 4}), question);
      out.send_to(kStranger);
      const auto bytes = out.bytes_of(out.packets()[0]);
      h.receive(is_member ? kTestSwitch : kStranger, {bytes.begin(), bytes.end()});
    }
    EXPECT_EQ(h.take(StatusCode::kHere).size(), is_member ? 100u : 1u);
  }
}

TEST(Server, OnePacketPerSwitchCountsAsInLeastPackets) {
  constexpr Endpoint kOther = Endpoint::ipv4(10, 0, 0, 101, 5501);
  ServerHarness h;
  for (const Rank rank : {0, 1, 2, 3}) {
    TestJoin join = h.join_of(rank, 4, true);
    h.join(rank < 2 ? kTestSwitch : kOther, join);
  }
  h.gradient(kTestSwitch, {.ranks = ranks({0, 1})});
  h.gradient(kOther, {.ranks = ranks({2, 3})});
  EXPECT_EQ(h.summary().progress.fragments, 1u);
  EXPECT_EQ(h.summary().progress.in_least_packets, 1u);
  h.gradient(kTestSwitch, {.sequence = 1, .ranks = ranks({0})});
  h.gradient(kTestSwitch, {.sequence = 1, .ranks = ranks({1})});
  h.gradient(kOther, {.sequence = 1, .ranks = ranks({2, 3})});
  EXPECT_EQ(h.summary().progress.fragments, 2u);
  EXPECT_EQ(h.summary().progress.in_least_packets, 1u) << "the first switch did not add";
}

TEST(Server, TheSummaryNamesTheRanksWaitedFor) {
  ServerHarness h = ServerHarness::behind_switch(3);
  h.gradient(kTestSwitch, {.ranks = ranks({0, 2})});
  EXPECT_TRUE(h.summary().waited_for.empty());
  h.advance(std::chrono::milliseconds(300));
  EXPECT_EQ(h.summary().waited_for, ranks({1}));
  EXPECT_FALSE(h.summary().stuck);
  h.advance(std::chrono::milliseconds(700));
  ASSERT_TRUE(h.summary().stuck);
  EXPECT_EQ(h.summary().stuck->ranks, ranks({1}));
  EXPECT_EQ(h.now - h.summary().stuck->since, std::chrono::seconds(1));
  EXPECT_EQ(h.summary().home_of(Rank{1}), worker_endpoint(1));
  h.gradient(kTestSwitch, {.ranks = ranks({1})});
  EXPECT_TRUE(h.summary().waited_for.empty());
  EXPECT_FALSE(h.summary().stuck);
}

// Ranks with different windows stall at different places of a stream.
TEST(Server, NamesTheRanksThatHoldUpAllStreamsNotThoseThatWaitThemselves) {
  ServerHarness h;
  for (const Rank rank : {0, 1, 2}) {
    TestJoin one = h.join_of(rank, 3, false);
    one.body.stream_count = 2;
    h.join(worker_endpoint(rank), one);
    one.flags = ATP_FLAG_DIRECT;
    h.join(worker_endpoint(rank), one);
  }
  h.out.clear();
  for (const int rank : {0, 1}) {
    h.gradient(worker_endpoint(static_cast<Rank>(rank)), {.ranks = ranks({rank})});
  }
  h.gradient(worker_endpoint(0), {.ranks = ranks({0}), .stream = 1});
  h.advance(std::chrono::milliseconds(1100));
  ASSERT_TRUE(h.summary().stuck);
  EXPECT_EQ(h.summary().stuck->ranks, ranks({2}));
  const auto told = h.take(StatusCode::kWaitingFor);
  EXPECT_EQ(told.size(), 6U) << "one per stream and rank";
  for (const Sent& one : told) EXPECT_EQ(one.status().about, ranks({2}));

  h.gradient(worker_endpoint(2), {.ranks = ranks({2})});
  ASSERT_TRUE(h.summary().stuck);
  EXPECT_EQ(h.summary().stuck->ranks, ranks({1, 2})) << "only fragments that still wait count";
}

TEST(Server, TheSummaryHasTheLatenessOfEachRank) {
  ServerHarness h = ServerHarness::flat(2);
  for (std::uint32_t step = 0; step < 5; ++step) {
    TestGradient gradient{.sequence = step, .ranks = ranks({0}), .operation = 100 + step};
    h.gradient(worker_endpoint(0), gradient);
    h.advance(std::chrono::milliseconds(20));
    gradient.ranks = ranks({1});
    h.gradient(worker_endpoint(1), gradient);
  }
  const auto lateness = h.summary().lateness;
  ASSERT_EQ(lateness.size(), 2U);
  EXPECT_GT(lateness[1].first.quantile(0.5), std::chrono::milliseconds(16));
  EXPECT_LE(lateness[0].first.quantile(0.99), std::chrono::microseconds(1));
}

}  // namespace
}  // namespace atp
