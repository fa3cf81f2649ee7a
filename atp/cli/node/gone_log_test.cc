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

std::vector<std::string> texts(const std::vector<LogLine>& lines) {
  std::vector<std::string> texts;
  texts.reserve(lines.size());
  for (const LogLine& line : lines) texts.push_back(line.text);
  return texts;
}

using Texts = std::vector<std::string>;

TEST(GoneLog, NamesEachRankOnceWithItsJobAsFields) {
  GoneLog log;
  EXPECT_TRUE(log.lines({{kJob, {}, {}}}).empty());
  const auto first = log.lines({{kJob, ranks({2}), {}}});
  ASSERT_EQ(texts(first), Texts{"job 7: rank 2 left"});
  EXPECT_EQ(first[0].about, (LogAbout{.job = 7, .incarnation = 1, .ranks = {2}}));
  EXPECT_TRUE(log.lines({{kJob, ranks({2}), {}}}).empty());

  const auto more = log.lines({{kJob, ranks({0, 1, 2}), ranks({3})}});
  EXPECT_EQ(texts(more),
            (Texts{"job 7: ranks 0 and 1 left", "job 7: rank 3 silent for a lease: lost"}));
  EXPECT_EQ(more[0].about.ranks, (std::vector<std::uint32_t>{0, 1}));
}

TEST(GoneLog, ForgetsJobsThatHaveEndedAndKeepsIncarnationsApart) {
  GoneLog log;
  log.lines({{kJob, ranks({2}), {}}});
  EXPECT_EQ(texts(log.lines({{kJob, ranks({2}), {}}, {{7, 2}, ranks({2}), {}}})),
            Texts{"job 7: rank 2 left"});
  log.lines({});
  EXPECT_EQ(texts(log.lines({{kJob, ranks({2}), {}}})), Texts{"job 7: rank 2 left"});
}

}  // namespace
}  // namespace atp
