#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "atp/base/testing_little_memory.h"
#include "atp/core/server/server_harness.h"
#include "atp/core/testing_quotas.h"

// How much strangers can make a server hold: one packet makes a job, so the number of jobs and
// their memory are bounded, and a job that exceeds the bounds is refused before anything is
// allocated.

namespace atp {

std::uint64_t bytes_held_now();  // counting_new_test.cc

namespace {

using std::chrono::seconds;

// The resident memory of this process.
std::uint64_t resident_now() {
  std::ifstream in("/proc/self/smaps_rollup");
  for (std::string word; in >> word;) {
    std::uint64_t kib = 0;
    if (word == "Rss:" && in >> kib) return kib << 10;
  }
  ADD_FAILURE() << "the kernel does not report it";
  return 0;
}

std::uint64_t held_now() { return bytes_held_now() + ZeroedMemory::held_now(); }

TEST(Limits, NoMoreJobsAreServedThanConfigured) {
  ServerConfig config = ServerHarness::small_config();
  config.max_jobs = 2;
  ServerHarness h(config);
  for (std::uint32_t i = 0; i < 3; ++i) {
    TestJoin join = h.join_of(0, 2, false);
    join.job.incarnation = i;
    h.join(worker_endpoint(0), join);
  }
  EXPECT_EQ(h.server.job_count(), 2u);
  const auto sent = h.take(StatusCode::kRefused);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].status().refusal(), (Refusal{RefusalReason::kTooManyJobs, 2, 0}));
}

// Joins one rank of a job and returns the refusal, if there is one.
Refusal refusal_of(ServerHarness& h, const JobKey& job, std::uint16_t first_stream = 0) {
  TestJoin join = h.join_of(0, 2, false);
  join.job = job;
  join.body.first_stream = first_stream;
  h.join(worker_endpoint(0), join);
  const auto sent = h.take(StatusCode::kRefused);
  return sent.empty() ? Refusal{} : sent[0].status().refusal();
}

TEST(Tenants, HaveNoMoreJobsAtATimeThanTheirQuota) {
  TestQuotas quotas;
  quotas.by_tenant = {{7, {.jobs = 2}}, {8, {.jobs = 1}}};
  ServerConfig config = ServerHarness::small_config();
  config.quotas = &quotas;
  ServerHarness h(config);
  EXPECT_FALSE(refusal_of(h, {1, 1, 7}));
  EXPECT_FALSE(refusal_of(h, {1, 1, 7}, 100)) << "another range of the same job";
  EXPECT_FALSE(refusal_of(h, {1, 2, 7})) << "another incarnation of the same job";
  EXPECT_FALSE(refusal_of(h, {1, 1, 8})) << "another tenant";
  EXPECT_FALSE(refusal_of(h, {2, 1, 7}));
  EXPECT_EQ(refusal_of(h, {3, 1, 7}), (Refusal{RefusalReason::kTenantJobs, 2, 0}));
  h.now += std::chrono::milliseconds(10);  // the pause between two answers
  EXPECT_EQ(refusal_of(h, {2, 1, 8}), (Refusal{RefusalReason::kTenantJobs, 1, 0}));
  EXPECT_FALSE(refusal_of(h, {5, 1})) << "nobody's";
  EXPECT_TRUE(h.server.knows_job(1));
  EXPECT_FALSE(h.server.knows_job(3));
}

TEST(Tenants, HaveNoMoreMemoryThanTheirQuota) {
  ServerConfig config = ServerHarness::small_config();
  std::size_t each = 0;
  {
    ServerHarness h(config);
    const TestJoin join = h.join_of(0, 2, false);
    each = Job::bytes_needed(join.job, join.body, config);
  }
  TestQuotas quotas;
  const std::size_t limit = 2 * each + each / 2;
  quotas.by_tenant = {{7, {.bytes = limit}}, {8, {.bytes = each}}};
  config.quotas = &quotas;
  ServerHarness h(config);
  EXPECT_FALSE(refusal_of(h, {1, 1, 7}));
  EXPECT_FALSE(refusal_of(h, {2, 1, 7}));
  EXPECT_EQ(refusal_of(h, {3, 1, 7}),
            memory_refusal(limit - 2 * each, each, RefusalReason::kTenantMemory));
  EXPECT_FALSE(refusal_of(h, {1, 1, 8})) << "exactly as much as it may have";
}

TEST(Keys, AJoinWhoseTagIsNotAcceptedIsAnsweredAndChangesNothing) {
  ServerHarness h;
  Outbox out;
  Outbox written;
  const TestJoin join = h.join_of(0, 2, false);
  put_join(written, {.type = PacketType::kJoin, .job = join.job}, RankSet::of(0), join.body);
  written.send_to(worker_endpoint(0));
  const auto refuse = [&](std::span<const std::uint8_t> bytes) {
    out.clear();
    h.server.refuse_key(h.now, worker_endpoint(0), bytes, KeyProblem::kWrongTag, out);
  };
  refuse(written.bytes_of(written.packets()[0]));
  ASSERT_EQ(out.packets().size(), 1u);
  const ParsedPacket answer = parse_packet(out.bytes_of(out.packets()[0]));
  ASSERT_TRUE(answer.ok());
  const auto status = StatusMessage::read(answer.view());
  ASSERT_TRUE(status);
  EXPECT_EQ(status->refusal(), (Refusal{RefusalReason::kKey, 3, 0}));
  EXPECT_EQ(status->nonce, join.body.nonce);
  EXPECT_EQ(h.server.job_count(), 0u);
  refuse(std::array<std::uint8_t, 3>{});
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(h.count(ServerCounter::kDropKey), 2u);
}

TEST(Draining, OnlyJobsThatAreUnknownAreRefused) {
  ServerConfig config = ServerHarness::small_config();
  ServerHarness h(config);
  h.join(worker_endpoint(0), h.join_of(0, 2, false));
  h.server.drain();
  ASSERT_EQ(h.server.job_count(), 1u);

  TestJoin newcomer = h.join_of(0, 2, false);
  newcomer.job.incarnation += 1;
  h.join(worker_endpoint(0), newcomer);
  const auto sent = h.take(StatusCode::kRefused);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].status().refusal(), (Refusal{RefusalReason::kDraining}));
  EXPECT_EQ(h.server.job_count(), 1u);
  EXPECT_FALSE(h.server.knows(newcomer.job));

  // The known job goes on: its other ranks, and its other stream ranges, may still come.
  TestJoin other_range = h.join_of(0, 2, false);
  other_range.body.first_stream = 100;
  h.join(worker_endpoint(0), other_range);
  EXPECT_EQ(h.server.job_count(), 2u);
  h.join(worker_endpoint(1), h.join_of(1, 2, false));
  EXPECT_EQ(h.take(StatusCode::kRefused).size(), 0u);
}

TEST(Limits, AJobOfMoreStreamsThanConfiguredIsRefused) {
  ServerHarness h;
  TestJoin join = h.join_of(0, 1, false);
  join.body.stream_count = 9;
  h.join(worker_endpoint(0), join);
  const auto sent = h.take(StatusCode::kRefused);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].status().refusal(), (Refusal{RefusalReason::kStreams, 8, 9}));
}

// docs/inside/protocol §5, *Blocks*: in 16 bits, the classes of 128 ranks would run into each
// other.
TEST(Limits, AJobWithMoreRanksThan16BitsAllowIsRefusedWithThatFormatAlone) {
  using enum NumberFormat;
  struct Row {
    const char* name;
    NumberFormat format;
    std::uint16_t ranks;
    bool is_refused;
  };
  const Row rows[] = {
      {"16 bits, 64 ranks", kBlocksInt16, 64, false},
      {"16 bits, 65 ranks", kBlocksInt16, 65, true},
      {"16 bits, the most ranks", kBlocksInt16, 1024, true},
      {"blocks of 32 bits, 65 ranks", kBlocks, 65, false},
      {"exact, 65 ranks", kExact, 65, false},
      {"the fixed scale, 65 ranks", kFixed, 65, false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    ServerHarness h;
    TestJoin join = h.join_of(0, row.ranks, false);
    join.bitmap_words = static_cast<std::uint8_t>(bitmap_words_for(row.ranks));
    join.body.stream_count = 2;
    join.body.number_format = row.format;
    h.join(worker_endpoint(0), join);
    const auto sent = h.take(StatusCode::kRefused);
    ASSERT_EQ(sent.size(), row.is_refused ? 1u : 0u);
    if (!row.is_refused) continue;
    EXPECT_EQ(sent[0].status().refusal(), (Refusal{RefusalReason::kTooManyRanks, 64, row.ranks}));
    EXPECT_EQ(h.server.job_count(), 0u);
  }
}

// docs/inside/protocol §6, *Overflow*.
TEST(Limits, SmallFragmentsHaveTwoWmaxSlotsOfTheirOwnButAtMost1024) {
  const auto bytes_with = [](std::uint32_t wmax, std::uint32_t small_slots) {
    return FragmentRing::bytes_needed(wmax, 100) +
           FloatPool::bytes_needed(2, small_slots, 100, 2 * wmax) + Lateness::bytes_needed(2, 1);
  };
  const ServerConfig config = ServerHarness::small_config();
  JobTerms terms{.stream_count = 1, .world_size = 2, .value_count = 100};
  terms.number_format = NumberFormat::kBlocks;
  for (const std::uint32_t wmax : {8u, 512u, 1024u}) {
    terms.wmax = wmax;
    EXPECT_EQ(Aggregation::bytes_needed(terms, config),
              bytes_with(wmax, std::min(2 * wmax, 1024u)));
  }
  terms.number_format = NumberFormat::kFixed;
  EXPECT_EQ(Aggregation::bytes_needed(terms, config), bytes_with(1024, 0));
}

TEST(Limits, AJobThatNeedsMoreMemoryThanIsLeftIsRefusedWithBothNumbers) {
  ServerConfig config;
  config.wmax = 65536;
  config.max_streams = 65535;
  ServerHarness h(config);
  // One forged JOIN may claim 65,535 streams of the largest fragments: 70 TiB.
  TestJoin greedy = h.join_of(0, 1, false);
  greedy.body.stream_count = 65535;
  greedy.body.max_value_count = ATP_VALUES_MAX;
  h.join(worker_endpoint(0), greedy);
  const auto sent = h.take(StatusCode::kRefused);
  ASSERT_EQ(sent.size(), 1u);
  const Refusal refusal = sent[0].status().refusal();
  EXPECT_EQ(refusal.reason, RefusalReason::kMemory);
  EXPECT_EQ(refusal.expected, 1024u);
  EXPECT_GT(refusal.found, 70u << 20);
  EXPECT_EQ(h.server.job_count(), 0u);
}

constexpr std::size_t kRoom = std::size_t{8} << 20;

// 1,024 fragments of 2,226 values per stream: more than kRoom, and less than the server's limit.
TestJoin large_join(const ServerHarness& h, std::uint32_t job, Rank rank) {
  TestJoin join = h.join_of(rank, 2, false);
  join.job.job = job;
  join.body.stream_count = 8;
  join.body.max_value_count = ATP_VALUES_MAX;
  return join;
}

ServerConfig config_of_large_jobs() {
  ServerConfig config = ServerHarness::small_config();
  config.wmax = 1024;
  config.max_value_count = ATP_VALUES_MAX;
  return config;
}

TEST(Limits, AJobForWhichTheSystemHasNoMemoryIsRefusedAndTheOthersGoOn) {
  ServerHarness h(config_of_large_jobs());
  const TestJoin large = large_join(h, 7, 0);
  const std::size_t needed = Job::bytes_needed(large.job, large.body, config_of_large_jobs());
  h.join_all(2, false);
  h.out.clear();
  {
    const LittleMemory little(kRoom);
    h.join(worker_endpoint(0), large);
    const auto refused = h.take(StatusCode::kRefused);
    ASSERT_EQ(refused.size(), 1u);
    EXPECT_EQ(refused[0].status().refusal(), memory_refusal(0, needed));
    EXPECT_EQ(refused[0].status().nonce, large.body.nonce);
    EXPECT_EQ(h.count(ServerCounter::kDropRefused), 1u);
    EXPECT_EQ(h.server.job_count(), 1u);

    for (Rank r = 0; r < 2; ++r) h.gradient(worker_endpoint(r), {.ranks = RankSet::of(r)});
    EXPECT_EQ(h.take(PacketType::kParameter).size(), 2u) << "the other job goes on";
    EXPECT_FALSE(refusal_of(h, {8, 1})) << "a job that fits";
  }
  h.join(worker_endpoint(0), large);
  EXPECT_TRUE(h.take(StatusCode::kRefused).empty()) << "there is memory again";
  EXPECT_TRUE(h.server.knows_job(7));
}

TEST(Limits, AJobWhoseMemoryIsGoneByTheTimeAllHaveJoinedEndsAndIsRefused) {
  struct Row {
    const char* name;
    std::uint8_t flags;  // of the last JOIN
    bool needs_a_timer;
  };
  const Row rows[] = {
      {"a JOIN through the tree completes it", 0, false},
      {"a timer does: for a lease, the last has sent straight JOINs alone", ATP_FLAG_DIRECT, true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    ServerHarness h(config_of_large_jobs());
    h.join(worker_endpoint(0), large_join(h, 7, 0));
    EXPECT_EQ(h.server.job_count(), 1u);
    {
      const LittleMemory little(kRoom);
      TestJoin last = large_join(h, 7, 1);
      last.flags = row.flags;
      h.join(worker_endpoint(1), last);
      if (row.needs_a_timer) {
        h.advance(seconds(3));
        EXPECT_EQ(h.server.job_count(), 1u);
        h.join(worker_endpoint(0), large_join(h, 7, 0));
        h.join(worker_endpoint(1), last);
        h.advance(seconds(3));
      }
      EXPECT_EQ(h.server.job_count(), 0u);
      EXPECT_EQ(h.count(ServerCounter::kJobsEnded), 1u);
      EXPECT_TRUE(h.take(PacketType::kJoinAck).empty());
      for (const Rank r : {0, 1}) {
        h.join(worker_endpoint(r), large_join(h, 7, r));
        EXPECT_EQ(h.take(StatusCode::kRefused).size(), 1u) << "rank " << r;
      }
    }
    for (const Rank r : {0, 1}) h.join(worker_endpoint(r), large_join(h, 7, r));
    EXPECT_EQ(h.take(PacketType::kJoinAck).size(), 2u) << "there is memory again";
  }
}

// A stranger alone in its job also makes the server allocate the memory for the sums.
TEST(Limits, AllJobsTogetherTakeNoMoreThanTheLimit) {
  struct Case {
    const char* name;
    std::uint16_t world_size;
    std::uint16_t streams;
    std::uint16_t value_count;
    std::uint32_t wmax;
    std::size_t least_held;  // with less, the limit would refuse jobs that fit
  };
  const Case cases[] = {
      {"of one rank with large fragments", 1, 8, ATP_VALUES_MAX, 64, std::size_t{16} << 20},
      {"of one rank with many small fragments", 1, 8, 1, 1024, std::size_t{16} << 20},
      {"of 1,024 ranks that have not joined", 1024, 1, 350, 1024, std::size_t{1} << 20},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    ServerConfig config;
    config.wmax = c.wmax;
    config.memory_limit_bytes = std::size_t{32} << 20;
    ServerHarness h(config);
    const std::uint64_t before = held_now();
    for (std::uint32_t i = 0; i < 300; ++i) {
      TestJoin join = h.join_of(0, c.world_size, false);
      join.job.incarnation = i;
      join.body.stream_count = c.streams;
      join.body.max_value_count = c.value_count;
      h.join(kStranger, join);
      h.out.clear();
    }
    EXPECT_GT(h.server.job_count(), 0u);
    EXPECT_LT(h.server.job_count(), 256u) << "memory is the limit here";
    const std::uint64_t held = held_now() - before;
    EXPECT_LE(held, config.memory_limit_bytes);
    EXPECT_GT(held, c.least_held);
  }
}

// Clearing the memory while handling one packet would stall all other jobs.
TEST(Limits, AJoinMakesAServerReserveMemoryButNotTouchIt) {
  ServerConfig config;
  config.wmax = 1024;
  ServerHarness h{config};
  TestJoin join = h.join_of(0, 1, false);
  join.body.stream_count = 8;
  join.body.max_value_count = ATP_VALUES_MAX;
  const std::uint64_t held = held_now();
  const std::uint64_t resident = resident_now();
  h.join(kStranger, join);
  EXPECT_EQ(h.server.job_count(), 1u);
  EXPECT_GT(held_now() - held, std::uint64_t{128} << 20);
  // Less is fine: the kernel may have reclaimed pages meanwhile.
  EXPECT_LT(resident_now(), resident + (std::uint64_t{8} << 20));
}

TEST(Limits, ARunningJobOfManyRanksTakesNoMoreThanItWasChargedFor) {
  ServerConfig config;
  config.wmax = 16;
  config.memory_limit_bytes = std::size_t{4} << 20;
  ServerHarness h(config);
  const std::uint64_t before = held_now();
  h.join_all(1024, false);
  h.out.clear();
  EXPECT_EQ(h.server.job_count(), 1u);
  EXPECT_LE(held_now() - before, config.memory_limit_bytes);
}

TEST(Limits, AJobsMemoryIsFreeForTheNextWhenItEnds) {
  ServerConfig config = ServerHarness::small_config();
  config.memory_limit_bytes = 100'000;
  ServerHarness h(config);
  for (std::uint32_t i = 0; i < 20; ++i) {
    TestJoin join = h.join_of(0, 1, false);
    join.job.incarnation = i;
    h.join(worker_endpoint(0), join);
    h.advance(seconds(6));
  }
  EXPECT_EQ(h.count(ServerCounter::kJobsMade), 20u);
  EXPECT_EQ(h.count(ServerCounter::kJobsEnded), 20u);
}

}  // namespace
}  // namespace atp
