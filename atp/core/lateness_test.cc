#include "atp/core/lateness.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

RankSet set_of(std::initializer_list<int> list) {
  RankSet set;
  for (const int rank : list) set.insert(static_cast<Rank>(rank));
  return set;
}

// One stream of a job with this many ranks, and a clock.
struct Job {
  explicit Job(std::size_t ranks) : all(RankSet::first(ranks)), lateness(ranks, 1) {}

  void packet(const RankSet& ranks, std::uint64_t sequence, std::uint32_t operation,
              Duration after_start) {
    const Instant now = start + after_start;
    if (lateness.goes_on(0, ranks, sequence, operation, now)) return;
    lateness.begin(0, ranks, sequence, operation, now, all);
  }
  const RankLateness& of(Rank rank) const { return lateness.of_ranks()[rank]; }

  RankSet all;
  Lateness lateness;
  Instant start{seconds(100)};
};

TEST(LatenessHistogram, GivesAnyQuantileWithinAPowerOfTwo) {
  LatenessHistogram histogram;
  EXPECT_EQ(histogram.quantile(0.5), Duration{});
  for (int i = 0; i < 98; ++i) histogram.add(microseconds(100));
  for (int i = 0; i < 2; ++i) histogram.add(milliseconds(50));
  EXPECT_GT(histogram.quantile(0.5), microseconds(64));
  EXPECT_LE(histogram.quantile(0.5), microseconds(128));
  EXPECT_GT(histogram.quantile(0.99), milliseconds(25));
  EXPECT_LE(histogram.quantile(0.99), milliseconds(100));
}

TEST(LatenessHistogram, TakesAnyDuration) {
  LatenessHistogram histogram;
  for (const Duration late : {Duration::min(), Duration{}, Duration{1}, Duration::max()}) {
    histogram.add(late);
  }
  EXPECT_EQ(histogram.count(), 4U);
  EXPECT_GE(histogram.quantile(1), seconds(8));
}

TEST(LatenessHistogram, ForgetsOldDurations) {
  LatenessHistogram histogram;
  for (std::uint32_t i = 0; i < LatenessHistogram::kWindow; ++i) histogram.add(seconds(1));
  for (std::uint32_t i = 0; i < 16 * LatenessHistogram::kWindow; ++i)
    histogram.add(microseconds(9));
  EXPECT_LE(histogram.quantile(0.99), microseconds(16));
}

TEST(Lateness, TheFirstPacketIsMeasuredAgainstTheMedian) {
  Job job(3);
  for (std::uint32_t operation = 0; operation < 10; ++operation) {
    const Duration begin = seconds(operation);
    job.packet(set_of({1}), operation, operation, begin);
    job.packet(set_of({0}), operation, operation, begin + microseconds(3));
    job.packet(set_of({2}), operation, operation, begin + milliseconds(40));
  }
  EXPECT_EQ(job.of(2).first.count(), 10U);
  EXPECT_GT(job.of(2).first.quantile(0.5), milliseconds(32));
  EXPECT_LE(job.of(2).first.quantile(0.5), milliseconds(66));
  EXPECT_LE(job.of(1).first.quantile(0.99), microseconds(1))
      << "earlier than the median is not late";
  EXPECT_LE(job.of(0).first.quantile(0.99), microseconds(1)) << "the median";
}

TEST(Lateness, TheLastPacketIsMeasuredOnceTheNextOperationBegins) {
  Job job(2);
  std::uint64_t sequence = 0;
  for (std::uint32_t operation = 0; operation < 3; ++operation) {
    for (int i = 0; i < 4; ++i, ++sequence) {
      const Duration begin = seconds(operation) + i * milliseconds(1);
      job.packet(set_of({0}), sequence, operation, begin);
      job.packet(set_of({1}), sequence, operation, begin + i * milliseconds(10));
    }
  }
  EXPECT_EQ(job.of(1).last.count(), 2U) << "whether the third has ended is not known yet";
  EXPECT_GT(job.of(1).last.quantile(0.5), milliseconds(16));
  EXPECT_LE(job.of(1).last.quantile(0.5), milliseconds(33));
  EXPECT_LE(job.of(1).first.quantile(0.99), microseconds(1));
}

TEST(Lateness, AsksForTheSlowWayOnlyAtTheFirstPacketOfAnOperation) {
  Job job(2);
  const RankSet rank = set_of({0});
  Lateness& lateness = job.lateness;
  ASSERT_FALSE(lateness.goes_on(0, rank, 0, 5, job.start));
  lateness.begin(0, rank, 0, 5, job.start, job.all);
  EXPECT_TRUE(lateness.goes_on(0, rank, 1, 5, job.start)) << "the operation's second packet";
  EXPECT_TRUE(lateness.goes_on(0, rank, 0, 5, job.start)) << "a repeat";
  EXPECT_TRUE(lateness.goes_on(1, rank, 0, 5, job.start)) << "a stream that is not measured";
  EXPECT_FALSE(lateness.goes_on(0, rank, 2, 6, job.start)) << "the next operation's first packet";
}

TEST(Lateness, IgnoresRepeats) {
  Job job(2);
  job.packet(set_of({0}), 0, 5, seconds(0));
  job.packet(set_of({1}), 0, 5, seconds(0));
  job.packet(set_of({0}), 1, 6, seconds(1));
  job.packet(set_of({1}), 1, 6, seconds(1));
  for (int i = 0; i < 10; ++i) job.packet(set_of({1}), 0, 5, seconds(2));
  EXPECT_EQ(job.of(1).first.count(), 2U);
  EXPECT_EQ(job.of(1).last.count(), 1U);
  EXPECT_LE(job.of(1).last.quantile(1), microseconds(1));
}

TEST(Lateness, CountsEachRankOfASum) {
  Job job(4);
  for (std::uint32_t operation = 0; operation < 4; ++operation) {
    job.packet(set_of({0, 1}), operation, operation, seconds(operation));
    job.packet(set_of({2, 3}), operation, operation, seconds(operation) + milliseconds(5));
  }
  for (const Rank rank : {2, 3}) EXPECT_GT(job.of(rank).first.quantile(0.5), milliseconds(4));
  for (const Rank rank : {0, 1}) EXPECT_LE(job.of(rank).first.quantile(1), microseconds(1));
}

TEST(Lateness, IgnoresAnOperationThatARankNeverBegins) {
  Job job(2);
  for (std::uint32_t operation = 0; operation < 20; ++operation) {
    job.packet(set_of({0}), operation, operation, seconds(operation));
  }
  EXPECT_EQ(job.of(0).first.count(), 0U);
  for (std::uint32_t operation = 20; operation < 22; ++operation) {
    job.packet(set_of({0}), operation, operation, seconds(operation));
    job.packet(set_of({1}), operation, operation, seconds(operation) + milliseconds(1));
  }
  EXPECT_EQ(job.of(1).first.count(), 2U) << "measuring resumes afterwards";
}

TEST(Lateness, ASingleRankIsNotMeasured) {
  Job job(1);
  job.packet(set_of({0}), 0, 1, seconds(0));
  job.packet(set_of({0}), 1, 2, seconds(1));
  EXPECT_EQ(job.of(0).first.count(), 0U);
}

}  // namespace
}  // namespace atp
