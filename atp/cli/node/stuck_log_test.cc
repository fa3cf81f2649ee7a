#include "atp/cli/node/stuck_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atp {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

JobStatus stuck(const std::vector<Rank>& ranks, milliseconds waited, std::uint32_t job = 7) {
  StuckJob stuck{.waited_s = std::chrono::duration<double>(waited).count(), .operation = "sum #17"};
  for (const Rank rank : ranks) {
    stuck.ranks.push_back({rank, rank < 4 ? "10.0.1." + std::to_string(rank) : ""});
  }
  return {.job = job, .incarnation = 1, .stuck = stuck};
}

std::vector<std::string> texts(const std::vector<LogLine>& lines) {
  std::vector<std::string> texts;
  texts.reserve(lines.size());
  for (const LogLine& line : lines) texts.push_back(line.text);
  return texts;
}

// Whose jobs get their hosts only on demand, as a node's.
class Log {
 public:
  std::vector<LogLine> lines(const std::vector<JobStatus>& jobs, Instant now) {
    std::vector<JobStatus> without = jobs;
    for (JobStatus& job : without) {
      for (StuckRank& rank : job.stuck->ranks) rank.host.clear();
    }
    return log_.lines(without, now, [&] {
      ++looks_;
      return jobs;
    });
  }
  int looks() const { return looks_; }  // for hosts

 private:
  StuckLog log_;
  int looks_ = 0;
};

constexpr Instant kBegin{std::chrono::hours(1)};

TEST(StuckLog, LogsTheBeginningAndTheEndOfAnEpisodeOnce) {
  Log log;
  EXPECT_THAT(texts(log.lines({}, kBegin)), IsEmpty());
  EXPECT_THAT(texts(log.lines({stuck({2}, milliseconds(1040))}, kBegin)),
              ElementsAre("job 7 has waited 1 s for rank 2 (10.0.1.2) in sum #17"));
  EXPECT_THAT(texts(log.lines({stuck({2}, milliseconds(4170))}, kBegin)), IsEmpty());
  EXPECT_THAT(texts(log.lines({}, kBegin)),
              ElementsAre("job 7 no longer waits for rank 2 (10.0.1.2) in sum #17, after 4.1 s"));
  EXPECT_THAT(texts(log.lines({}, kBegin)), IsEmpty());
}

TEST(StuckLog, ItsLinesHaveTheJobAndTheRanksAsFields) {
  Log log;
  const LogAbout expected{.job = 7, .incarnation = 1, .ranks = {2, 5}};
  const auto begun = log.lines({stuck({2, 5}, milliseconds(1040))}, kBegin);
  ASSERT_EQ(begun.size(), 1U);
  EXPECT_EQ(begun[0].about, expected);
  const auto over = log.lines({}, kBegin);
  ASSERT_EQ(over.size(), 1U);
  EXPECT_EQ(over[0].about, expected);
}

TEST(StuckLog, AsksForHostsOnceAndOnlyForALine) {
  Log log;
  const std::vector<JobStatus> jobs = {stuck({2}, milliseconds(1040)),
                                       stuck({3}, milliseconds(1040), 8)};
  EXPECT_EQ(log.lines(jobs, kBegin).size(), 2U);
  EXPECT_EQ(log.looks(), 1);
  EXPECT_THAT(log.lines(jobs, kBegin), IsEmpty());
  EXPECT_THAT(log.lines({}, kBegin), testing::SizeIs(2));
  EXPECT_EQ(log.looks(), 1);
}

TEST(StuckLog, WaitsAMomentForTheOperationsDescription) {
  Log log;
  JobStatus unknown = stuck({2}, milliseconds(1300));
  unknown.stuck->operation.clear();
  EXPECT_THAT(log.lines({unknown}, kBegin), IsEmpty());
  unknown.stuck->waited_s = 1.55;
  EXPECT_THAT(texts(log.lines({unknown}, kBegin)),
              ElementsAre("job 7 has waited 1.5 s for rank 2 (10.0.1.2)"));
}

TEST(StuckLog, LogsRanksThatJoinAnEpisode) {
  Log log;
  log.lines({stuck({2}, milliseconds(1000))}, kBegin);
  EXPECT_THAT(texts(log.lines({stuck({2, 5}, milliseconds(2000))}, kBegin)),
              ElementsAre("job 7 has waited 2 s for ranks 2 (10.0.1.2), 5 in sum #17"));
  EXPECT_THAT(texts(log.lines({stuck({5}, milliseconds(2500))}, kBegin)), IsEmpty());
}

TEST(StuckLog, KeepsJobsApart) {
  Log log;
  EXPECT_EQ(
      log.lines({stuck({2}, milliseconds(1000), 7), stuck({2}, milliseconds(1000), 8)}, kBegin)
          .size(),
      2U);
  EXPECT_THAT(texts(log.lines({stuck({2}, milliseconds(1500), 8)}, kBegin)),
              ElementsAre("job 7 no longer waits for rank 2 (10.0.1.2) in sum #17, after 1 s"));
}

TEST(StuckLog, ARankThatIsLateInEveryStepIsLoggedOncePerTenSeconds) {
  Log log;
  std::size_t said = 0;
  for (Instant now = kBegin; now < kBegin + std::chrono::seconds(25);) {
    said += log.lines({stuck({2}, milliseconds(1100))}, now).size();
    said += log.lines({}, now + milliseconds(250)).size();
    now += milliseconds(1300);
  }
  EXPECT_EQ(said, 6U) << "begins and ends to hold up the job, three times";
  EXPECT_EQ(log.lines({stuck({3}, milliseconds(1100))}, kBegin + std::chrono::seconds(25)).size(),
            1U)
      << "another rank is logged at once";
}

TEST(StuckLog, ARankThatIsLateAgainAndStaysSoIsLoggedAfterTenSeconds) {
  Log log;
  log.lines({stuck({2}, milliseconds(1000))}, kBegin);
  log.lines({}, kBegin + milliseconds(250));
  EXPECT_THAT(log.lines({stuck({2}, milliseconds(1000))}, kBegin + milliseconds(3000)), IsEmpty());
  EXPECT_THAT(texts(log.lines({stuck({2}, milliseconds(8100))}, kBegin + milliseconds(10'100))),
              ElementsAre("job 7 has waited 8.1 s for rank 2 (10.0.1.2) in sum #17"));
}

}  // namespace
}  // namespace atp
