#include "atp/collective/shm/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "atp/base/random.h"

// Engines of all ranks in this process: each in a thread of its own, at the same addresses, so that
// the thread sanitizer sees all that they share; or driven one step at a time, in any order.

namespace atp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

class Host {
 public:
  explicit Host(std::size_t ranks, milliseconds timeout = std::chrono::seconds(20))
      : segment_(Segment::create(ranks).value()) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      segment_.board_of(rank).process.store(static_cast<std::uint32_t>(100 + rank));
      engines_.push_back(std::make_unique<HostEngine>(
          HostPlace{segment_.alias(), Presence::of(segment_.descriptor(), rank).value()},
          HostEngineOptions{.rank = rank,
                            .operation_timeout = timeout,
                            .describe = [](const HostOperationHeader& header) {
                              return "operation " + std::to_string(header.number);
                            }}));
    }
  }

  std::size_t ranks() const { return engines_.size(); }
  HostBoard& board() { return segment_.board(); }
  HostBoard::RankBoard& board_of(std::size_t rank) { return segment_.board_of(rank); }
  HostEngine& engine(std::size_t rank) { return *engines_[rank]; }
  // As if its process had died.
  void kill(std::size_t rank) { engines_[rank].reset(); }

 private:
  Segment segment_;
  std::vector<std::unique_ptr<HostEngine>> engines_;
};

// Sums of whole numbers, which are exact: value i of rank r is r + i % 100 + 1.
class Sum {
 public:
  Sum(std::size_t rank, std::size_t count) : layout_(count), values_(count) {
    for (std::size_t i = 0; i < count; ++i) values_[i] = static_cast<float>(rank + i % 100 + 1);
    request_.call = Collective::kAllReduce;
    request_.kind = ElementKind::kFloat32;
    request_.reduction = ElementReduction::kSum;
    request_.timeout_is_total = false;
  }
  CollectiveRequest& request() { return request_; }
  HostOperation operation(std::uint64_t number) {
    request_.outputs = {std::as_writable_bytes(std::span(values_))};
    return {.number = number, .request = &request_, .layout = &layout_};
  }
  bool is_of(std::size_t ranks) const {
    const std::size_t of_ranks = ranks * (ranks - 1) / 2;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (values_[i] != static_cast<float>(of_ranks + ranks * (i % 100 + 1))) return false;
    }
    return true;
  }

 private:
  BlockLayout layout_;
  std::vector<float> values_;
  CollectiveRequest request_;
};

// Summed whole, in one piece, and in several that reuse the slots; and empty.
constexpr std::size_t kCounts[] = {10, 200'000, 0, 5000, 300'000, 1, 70'000, 3000};

// Drives these ranks in turn until each has failed; returns their failures.
std::vector<std::string> failures_of(Host& host, const std::vector<std::size_t>& ranks) {
  const auto until = steady_clock::now() + std::chrono::seconds(20);
  const auto has_failed = [&](std::size_t rank) { return host.engine(rank).failure().has_value(); };
  while (!std::all_of(ranks.begin(), ranks.end(), has_failed) && steady_clock::now() < until) {
    for (const std::size_t rank : ranks) {
      host.engine(rank).work(steady_clock::now());
      host.engine(rank).wait();
    }
  }
  std::vector<std::string> failures;
  for (const std::size_t rank : ranks) {
    failures.push_back(host.engine(rank).failure().value_or("none"));
  }
  return failures;
}

class HostEngines : public ::testing::TestWithParam<std::size_t> {};

TEST_P(HostEngines, SumInThreads) {
  Host host(GetParam());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < host.ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      HostEngine& engine = host.engine(rank);
      std::vector<Sum> sums;
      for (const std::size_t count : kCounts) sums.emplace_back(rank, count);
      for (std::size_t i = 0; i < sums.size(); ++i) {
        engine.submit(sums[i].operation(i), steady_clock::now());
      }
      for (std::size_t ended = 0; ended < sums.size(); ended += engine.take_completed()) {
        ASSERT_EQ(engine.failure().value_or(""), "");
        engine.work(steady_clock::now());
        engine.wait();
      }
      for (const Sum& sum : sums) EXPECT_TRUE(sum.is_of(host.ranks()));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(HostEngines, SumWhateverTheOrderOfTheirSteps) {
  Random random(GetParam());
  Host host(GetParam());
  std::vector<std::vector<Sum>> sums(host.ranks());
  for (std::size_t rank = 0; rank < host.ranks(); ++rank) {
    for (const std::size_t count : kCounts) sums[rank].emplace_back(rank, count);
  }
  std::vector<std::size_t> submitted(host.ranks());
  std::size_t ended = 0;
  while (ended < host.ranks() * std::size(kCounts)) {
    const std::size_t rank = random.below(host.ranks());
    std::size_t& next = submitted[rank];
    if (next < std::size(kCounts) && random.below(2) == 0) {
      host.engine(rank).submit(sums[rank][next].operation(next), steady_clock::now());
      ++next;
    }
    host.engine(rank).work(steady_clock::now());
    ASSERT_EQ(host.engine(rank).failure().value_or(""), "");
    ended += host.engine(rank).take_completed();
  }
  for (const auto& of_rank : sums) {
    for (const Sum& sum : of_rank) EXPECT_TRUE(sum.is_of(host.ranks()));
  }
}

INSTANTIATE_TEST_SUITE_P(Of, HostEngines, ::testing::Values(1U, 2U, 3U, 8U),
                         ::testing::PrintToStringParamName());

// Rank 1 of 3 does this many rounds of work, each after all others had theirs, and dies. Operations
// that the others have not ended by then fail; if there are none, the next one does.
TEST(HostEngine, NamesARankThatDiesAfterAnyRoundOfWork) {
  for (std::size_t rounds = 0; rounds < 10; ++rounds) {
    Host host(3);
    std::vector<Sum> sums;
    for (std::size_t rank = 0; rank < 3; ++rank) sums.emplace_back(rank, 300'000);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      host.engine(rank).submit(sums[rank].operation(0), steady_clock::now());
    }
    for (std::size_t round = 0; round < rounds; ++round) {
      for (const std::size_t rank : {0U, 2U, 1U}) host.engine(rank).work(steady_clock::now());
    }
    host.kill(1);
    for (const std::size_t rank : {0U, 2U}) {
      host.engine(rank).submit(sums[rank].operation(1), steady_clock::now());
    }
    EXPECT_THAT(failures_of(host, {0, 2}),
                Each("rank 1 (process 101) is lost: its process has ended"));
  }
}

// A rank counts a piece first for all and then for itself, and may die in between. The other way
// round, all would wait for a rank that does not count as missing.
TEST(HostEngine, NamesARankThatDiesBetweenItsTwoCounts) {
  Host host(2);
  Sum sum(0, 50'000);
  host.engine(0).submit(sum.operation(0), steady_clock::now());
  host.engine(0).work(steady_clock::now());
  host.kill(1);
  host.board_of(1).headers[0] = host.board_of(0).headers[0];
  host.board().slots[0].written.value.fetch_add(1);
  EXPECT_THAT(failures_of(host, {0}), Each(HasSubstr("rank 1 (process 101) is lost")));
}

// No rank waits for a share of a piece that each sums whole, so a rank that has done one may still
// owe its share of earlier ones.
TEST(HostEngine, NamesARankThatDiesWithASmallPieceWrittenAfterOneThatItHasNotSummed) {
  Host host(2);
  std::vector<std::unique_ptr<Sum>> sums;
  for (const std::size_t rank : {1U, 0U}) {
    for (const std::uint64_t number : {0U, 1U}) {
      sums.push_back(std::make_unique<Sum>(rank, number == 0 ? 20'000 : 10));
      host.engine(rank).submit(sums.back()->operation(number), steady_clock::now());
    }
    if (rank == 1) host.engine(rank).work(steady_clock::now());
  }
  host.kill(1);
  EXPECT_THAT(failures_of(host, {0}), Each(HasSubstr("rank 1 (process 101) is lost")));
}

TEST(HostEngine, CountsAPieceForAllBeforeItself) {
  constexpr std::size_t kPieces = 20'000;
  Host host(1);
  std::thread other([&] {
    Sum sum(0, 10);
    for (std::size_t i = 0; i < kPieces; ++i) {
      host.engine(0).submit(sum.operation(i), steady_clock::now());
      while (host.engine(0).take_completed() == 0) host.engine(0).work(steady_clock::now());
    }
  });
  const auto of_all = [&] {
    return host.board().slots[0].taken.value.load() + host.board().slots[1].taken.value.load();
  };
  for (std::uint64_t own = 0; own < kPieces;) {
    own = host.board_of(0).taken.load();
    ASSERT_GE(of_all(), own);
  }
  other.join();
}

TEST(HostEngine, NamesARankThatDiesOrStopsWhileItReportsAFailure) {
  for (const bool dies : {true, false}) {
    Host host(3);
    Sum sum(0, 5000);
    host.engine(0).submit(sum.operation(0), steady_clock::now());
    host.board().failing.store(HostBoard::being_told_by(2));
    if (dies) host.kill(2);
    EXPECT_THAT(
        failures_of(host, {0}),
        Each(AllOf(HasSubstr("rank 2 (process 102)"),
                   HasSubstr(dies ? "is lost: its process has ended" : "found a failure"))));
  }
}

TEST(HostEngine, GivesAllRanksTheSameFailure) {
  Host host(3, milliseconds(50));
  std::vector<Sum> sums;
  for (std::size_t rank = 0; rank < 3; ++rank) sums.emplace_back(rank, 5000);
  for (const std::size_t rank : {0U, 1U}) {
    host.engine(rank).submit(sums[rank].operation(0), steady_clock::now());
    host.engine(rank).work(steady_clock::now());
  }
  const char* failure = "no progress for 0.05 s: rank 2 (process 102) has not called operation 0";
  EXPECT_THAT(failures_of(host, {0, 1}), Each(failure));
  host.engine(2).submit(sums[2].operation(0), steady_clock::now());
  EXPECT_THAT(failures_of(host, {2}), Each(failure)) << "even though it is late";
}

TEST(HostEngine, TimesOutThoughAnotherRankKeepsCalling) {
  Host host(3, milliseconds(300));
  std::vector<Sum> sums;
  for (std::size_t i = 0; i < 200; ++i) sums.emplace_back(1, 10);
  Sum sum(0, 10);
  host.engine(0).submit(sum.operation(0), steady_clock::now());
  for (std::size_t i = 0; i < sums.size() && !host.engine(0).failure(); ++i) {
    host.engine(1).submit(sums[i].operation(i), steady_clock::now());
    host.engine(0).work(steady_clock::now());
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_THAT(host.engine(0).failure().value_or("none"),
              AllOf(HasSubstr("no progress for 0.3 s"), HasSubstr("rank 2 (process 102)")));
}

TEST(HostEngine, EndsAnOperationWhoseTimeIsOverAlthoughItMakesProgress) {
  Host host(2, milliseconds(300));
  std::vector<Sum> sums;
  for (std::size_t rank = 0; rank < 2; ++rank) sums.emplace_back(rank, 5'000'000);
  for (const std::size_t rank : {0U, 1U}) {
    sums[rank].request().timeout_is_total = true;
    host.engine(rank).submit(sums[rank].operation(0), steady_clock::now());
  }
  // Both take a step now and then, more often than every 300 ms.
  while (!host.engine(0).failure() || !host.engine(1).failure()) {
    for (const std::size_t rank : {0U, 1U}) {
      host.engine(rank).work(steady_clock::now());
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_THAT(host.engine(0).failure().value_or("none"),
              AllOf(HasSubstr("not ended within its timeout of 0.3 s, although every rank makes "
                              "progress"),
                    HasSubstr(" of its 5,000,000 values are done"), Not(HasSubstr("process"))));
}

// A rank's thread reads its clock often while it works: it takes a late reading for a pause.
TEST(HostEngine, EndsAnOperationInTimeHoweverLongAPieceTakes) {
  constexpr milliseconds kOfAPiece{150};
  Host host(1, std::chrono::seconds(2));
  Sum sum(0, 10'000'000);
  CollectiveRequest& request = sum.request();
  request.timeout_is_total = true;
  HostEngine& engine = host.engine(0);
  const auto now = [&] {
    const auto pieces = static_cast<int>(engine.counters()[HostCounter::kPieces]);
    return steady_clock::time_point(std::chrono::hours(1)) + pieces * kOfAPiece;
  };
  const steady_clock::time_point begin = now();
  steady_clock::time_point before = begin;
  engine.submit(sum.operation(0), begin);
  while (!engine.failure() && engine.take_completed() == 0) {
    engine.work([&] {
      EXPECT_LE(now() - before, kOfAPiece);
      return before = now();
    });
  }
  EXPECT_THAT(engine.failure().value_or("none"), HasSubstr("although every rank makes progress"));
  EXPECT_LE(now() - begin, std::chrono::seconds(2) + kOfAPiece);
}

// Its rank has used the time to prepare the values.
TEST(HostEngine, NeverBeginsAnOperationWhoseTimeIsUp) {
  Host host(2);
  Sum sum(0, 300'000);
  CollectiveRequest& request = sum.request();
  request.timeout = request.spent = std::chrono::seconds(2);
  request.timeout_is_total = true;
  host.engine(0).submit(sum.operation(0), steady_clock::now());
  host.engine(0).work(steady_clock::now());
  EXPECT_EQ(host.engine(0).counters()[HostCounter::kPieces], 0U);
  Sum other(1, 300'000);
  host.engine(1).submit(other.operation(0), steady_clock::now());
  EXPECT_THAT(failures_of(host, {0, 1}),
              Each("not ended within its timeout of 2 s: rank 0 (process 100) needed all of it to "
                   "copy or convert its tensors, before the operation could begin; give the group "
                   "a longer timeout, or use smaller tensors"));
}

TEST(HostEngine, LetsAnotherRankPrepareItsValuesALittleLonger) {
  Host host(2);
  Sum sum(0, 300'000);
  CollectiveRequest& request = sum.request();
  request.timeout = std::chrono::seconds(2);
  request.timeout_is_total = true;
  request.spent = milliseconds(1'500);
  const auto begin = steady_clock::now();
  host.engine(0).submit(sum.operation(0), begin);
  host.engine(0).work(begin + milliseconds(999));
  EXPECT_EQ(host.engine(0).failure().value_or("none"), "none") << "0.5 s and as much again";
  host.engine(0).work(begin + milliseconds(1'100));
  EXPECT_EQ(host.engine(0).failure().value_or("none"),
            "not ended within its timeout of 2 s: rank 1 (process 101) has not called operation 0");
}

TEST(HostEngine, DoesNotTakeTheLongestTimeOutForOneThatHasPassed) {
  Host host(2, milliseconds::max());
  std::vector<Sum> sums;
  for (const std::size_t rank : {0U, 1U}) sums.emplace_back(rank, 5000);
  const steady_clock::time_point now = steady_clock::now();
  host.engine(0).submit(sums[0].operation(0), now);
  host.engine(0).work(now);
  host.engine(0).work(now + std::chrono::hours(1));
  EXPECT_EQ(host.engine(0).failure().value_or("none"), "none");
  host.engine(1).submit(sums[1].operation(0), now);
  for (const std::size_t rank : {1U, 0U, 1U}) host.engine(rank).work(now);
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_EQ(host.engine(rank).take_completed(), 1U);
    EXPECT_TRUE(sums[rank].is_of(2));
  }
}

TEST(HostEngine, TellsTheOthersThatItLeaves) {
  Host host(2);
  Sum first(0, 5000);
  Sum second(1, 5000);
  host.engine(1).submit(second.operation(0), steady_clock::now());
  host.engine(1).leave("its program ended");
  EXPECT_EQ(host.engine(1).failure().value_or(""), "rank 1 has left the job: its program ended");
  host.engine(0).submit(first.operation(0), steady_clock::now());
  EXPECT_THAT(failures_of(host, {0}), Each("rank 1 has left the job: its program ended"));
}

}  // namespace
}  // namespace atp
