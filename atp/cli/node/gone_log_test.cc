#include "atp/cli/node/gone_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace atp {
namespace {

constexpr JobKey kJob{7, 1};

RankSet ranks(std::initializer_list<Rank> list) {
  RankSet set;
  for (const Rank rank : list) set.insert(rank);
  return set;
}

JobStatus gone(const RankSet& left, const RankSet& lost = {}, std::uint64_t incarnation = 1,
               const std::string& tenant = "") {
  return {.job = 7, .incarnation = incarnation, .left = left, .tenant = tenant, .lost = lost};
}

std::vector<std::string> texts(const std::vector<LogLine>& lines) {
  std::vector<std::string> texts;
  texts.reserve(lines.size());
  for (const LogLine& line : lines) texts.push_back(line.text);
  return texts;
}

using Texts = std::vector<std::string>;

TEST(GoneLog, NamesEachRankOnceWithItsJobAsFields) {
  GoneLog log;
  EXPECT_TRUE(log.lines({gone({})}).empty());
  const auto first = log.lines({gone(ranks({2}))});
  ASSERT_EQ(texts(first), Texts{"job 7: rank 2 left"});
  EXPECT_EQ(first[0].about, (LogAbout{.job = 7, .incarnation = 1, .ranks = {2}}));
  EXPECT_TRUE(log.lines({gone(ranks({2}))}).empty());

  const auto more = log.lines({gone(ranks({0, 1}), ranks({3})), gone(ranks({1, 2}))});
  EXPECT_EQ(texts(more),
            (Texts{"job 7: ranks 0 and 1 left", "job 7: rank 3 silent for a lease: lost"}));
  EXPECT_EQ(more[0].about.ranks, (std::vector<std::uint32_t>{0, 1}));
}

TEST(GoneLog, TellsTwoTenantsJobsOfOneNumberApart) {
  GoneLog log;
  const auto lines =
      log.lines({gone(ranks({2}), {}, 1, "speech"), gone(ranks({2}), {}, 1, "vision")});
  EXPECT_EQ(texts(lines), (Texts{"job 7 of speech: rank 2 left", "job 7 of vision: rank 2 left"}));
  EXPECT_EQ(lines[0].about,
            (LogAbout{.job = 7, .incarnation = 1, .tenant = "speech", .ranks = {2}}));
}

TEST(GoneLog, ForgetsJobsThatHaveEndedAndKeepsIncarnationsApart) {
  GoneLog log;
  log.lines({gone(ranks({2}))});
  EXPECT_EQ(texts(log.lines({gone(ranks({2})), gone(ranks({2}), {}, 2)})),
            Texts{"job 7: rank 2 left"});
  log.lines({});
  EXPECT_EQ(texts(log.lines({gone(ranks({2}))})), Texts{"job 7: rank 2 left"});
}

JobFailure failure(Rank rank, std::string_view cause) {
  return {.job = kJob,
          .rank = rank,
          .home = Endpoint::ipv4(10, 0, 1, 1, 4000),
          .cause = CauseText(cause)};
}

TEST(FailureLog, SaysOnceWhyEachJobHasFailed) {
  FailureLog log;
  JobFailures failures;
  EXPECT_TRUE(log.lines(failures).empty());
  failures.add(failure(1, "its process was killed"));
  const auto lines = log.lines(failures);
  ASSERT_EQ(texts(lines),
            Texts{"job 7 has failed: rank 1 (10.0.1.1) left: its process was killed"});
  EXPECT_EQ(lines[0].about, (LogAbout{.job = 7, .incarnation = 1, .ranks = {1}}));
  EXPECT_TRUE(log.lines(failures).empty());
  failures.add(failure(2, ""));
  EXPECT_EQ(
      texts(log.lines(failures)),
      Texts{"job 7 has failed: rank 2 (10.0.1.1) was lost: nothing came from it for a lease"});
}

TEST(FailureLog, SaysOnlyTheLastOnesOfMoreThanAreKept) {
  FailureLog log;
  JobFailures failures;
  for (Rank rank = 0; rank < 20; ++rank) failures.add(failure(rank, "x"));
  const auto lines = log.lines(failures);
  ASSERT_EQ(lines.size(), JobFailures::kMost);
  EXPECT_EQ(lines.front().about.ranks, std::vector<std::uint32_t>{4});
  EXPECT_EQ(lines.back().about.ranks, std::vector<std::uint32_t>{19});
}

}  // namespace
}  // namespace atp
