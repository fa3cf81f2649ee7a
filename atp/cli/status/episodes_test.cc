#include "atp/cli/status/episodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "atp/cli/status/job_findings.h"

namespace atp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

RankSet set_of(std::initializer_list<Rank> list) {
  RankSet set;
  for (const Rank rank : list) set.insert(rank);
  return set;
}

JobStatus stuck(const std::vector<Rank>& ranks, double waited_s, std::uint64_t job = 7) {
  StuckJob stuck{.waited_s = waited_s, .operation = "sum #17"};
  for (const Rank rank : ranks) {
    stuck.ranks.push_back({rank, rank < 4 ? "10.0.1." + std::to_string(rank) : ""});
  }
  return {.job = job, .incarnation = 1, .stuck = stuck};
}

JobStatus gone(std::initializer_list<Rank> left, std::initializer_list<Rank> lost = {},
               std::uint64_t incarnation = 1, const std::string& tenant = "") {
  return {.job = 7,
          .incarnation = incarnation,
          .left = set_of(left),
          .tenant = tenant,
          .lost = set_of(lost)};
}

// What a node would log.
class NodeLog : public testing::Test {
 protected:
  std::vector<LogLine> lines(const std::vector<JobStatus>& jobs, double after_s = 0,
                             const std::vector<FailedJob>& failures = {}) {
    now_s_ += after_s;
    std::vector<LogLine> lines;
    for (const Finding& news : episodes_.take(findings_of(jobs, failures, now_s_), now_s_)) {
      lines.push_back(log_line(news, now_s_));
    }
    return lines;
  }
  std::vector<std::string> texts(const std::vector<JobStatus>& jobs, double after_s = 0,
                                 const std::vector<FailedJob>& failures = {}) {
    std::vector<std::string> texts;
    for (const LogLine& line : lines(jobs, after_s, failures)) texts.push_back(line.text);
    return texts;
  }

 private:
  Episodes episodes_;
  double now_s_ = 3600;
};

TEST_F(NodeLog, TellsTheBeginningAndTheEndOfAnEpisodeOnce) {
  EXPECT_THAT(texts({}), IsEmpty());
  EXPECT_THAT(texts({stuck({2}, 1.04)}),
              ElementsAre("job 7 waits for rank 2 (10.0.1.2) in sum #17: 1 s so far"));
  EXPECT_THAT(texts({stuck({2}, 4.04)}, 3), IsEmpty());
  EXPECT_THAT(texts({}, 0.13),
              ElementsAre("job 7 no longer waits for rank 2 (10.0.1.2) in sum #17, after 4.1 s"));
  EXPECT_THAT(texts({}), IsEmpty());
}

TEST_F(NodeLog, HasTheJobAndTheRanksAsFields) {
  const LogAbout expected{.job = 7, .incarnation = 1, .ranks = {2, 5}};
  const auto begun = lines({stuck({2, 5}, 1)});
  ASSERT_EQ(begun.size(), 1U);
  EXPECT_EQ(begun[0].about, expected);
  const auto over = lines({});
  ASSERT_EQ(over.size(), 1U);
  EXPECT_EQ(over[0].about, expected);
}

TEST_F(NodeLog, WaitsAMomentForTheOperationsDescription) {
  JobStatus unknown = stuck({2}, 1.3);
  unknown.stuck->operation.clear();
  EXPECT_THAT(texts({unknown}), IsEmpty());
  unknown.stuck->waited_s = 1.55;
  EXPECT_THAT(texts({unknown}), ElementsAre("job 7 waits for rank 2 (10.0.1.2): 1.5 s so far"));
}

TEST_F(NodeLog, TellsRanksThatJoinAnEpisode) {
  texts({stuck({2}, 1)});
  EXPECT_THAT(texts({stuck({2, 5}, 2)}, 1),
              ElementsAre("job 7 waits for ranks 2 (10.0.1.2), 5 in sum #17: 2 s so far"));
  EXPECT_THAT(texts({stuck({5}, 2.5)}, 0.5), IsEmpty());
}

TEST_F(NodeLog, KeepsJobsApartAndPutsRangesOfOneTogether) {
  EXPECT_THAT(texts({stuck({2}, 1, 7), stuck({2}, 1, 8)}), testing::SizeIs(2));
  EXPECT_THAT(texts({stuck({2}, 1, 8), stuck({3}, 0.5, 8)}),
              ElementsAre("job 8 waits for ranks 2 (10.0.1.2), 3 (10.0.1.3) in sum #17: 1 s so far",
                          "job 7 no longer waits for rank 2 (10.0.1.2) in sum #17, after 1 s"));
}

TEST_F(NodeLog, TellsOfARankThatIsLateInEveryStepOncePerTenSeconds) {
  std::size_t told = 0;
  for (double now_s = 0; now_s < 25; now_s += 1.3) {
    told += texts({stuck({2}, 1.1)}, 1.05).size();
    told += texts({}, 0.25).size();
  }
  EXPECT_EQ(told, 6U) << "begins and ends to hold up the job, three times";
  EXPECT_EQ(texts({stuck({3}, 1.1)}).size(), 1U) << "another rank is told at once";
}

TEST_F(NodeLog, TellsOfARankThatIsLateAgainAndStaysSoAfterTenSeconds) {
  texts({stuck({2}, 1)});
  texts({}, 0.25);
  EXPECT_THAT(texts({stuck({2}, 1)}, 2.75), IsEmpty());
  EXPECT_THAT(texts({stuck({2}, 8.1)}, 7.1),
              ElementsAre("job 7 waits for rank 2 (10.0.1.2) in sum #17: 8.1 s so far"));
}

TEST_F(NodeLog, NamesRanksThatAreGoneInAllRangesOfAJob) {
  EXPECT_THAT(texts({gone({})}), IsEmpty());
  EXPECT_THAT(texts({gone({2})}), ElementsAre("job 7: rank 2 left"));
  EXPECT_THAT(texts({gone({2})}), IsEmpty());
  EXPECT_THAT(texts({gone({0, 1}, {3}), gone({1, 2})}),
              ElementsAre("job 7: rank 3 silent for a lease: lost", "job 7: ranks 0 to 2 left"));
}

TEST_F(NodeLog, TellsTenantsAndIncarnationsApart) {
  EXPECT_THAT(texts({gone({2}, {}, 1, "speech"), gone({2}, {}, 1, "vision")}),
              ElementsAre("job 7 of speech: rank 2 left", "job 7 of vision: rank 2 left"));
  EXPECT_THAT(texts({gone({2}, {}, 2, "vision")}), ElementsAre("job 7 of vision: rank 2 left"));
}

TEST_F(NodeLog, SaysOnceWhyEachJobHasFailed) {
  const FailedJob seven{.job = 7, .incarnation = 1, .rank = 1, .why = "rank 1 left: killed"};
  const FailedJob eight{.job = 8, .incarnation = 1, .rank = 2, .why = "rank 2 was lost"};
  const auto first = lines({}, 0, {seven});
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].text, "job 7 has failed: rank 1 left: killed");
  EXPECT_EQ(first[0].about, (LogAbout{.job = 7, .incarnation = 1, .ranks = {1}}));
  EXPECT_THAT(texts({}, 60, {seven, eight}), ElementsAre("job 8 has failed: rank 2 was lost"));
  EXPECT_THAT(texts({}, 1, {eight}), IsEmpty());
}

}  // namespace
}  // namespace atp
