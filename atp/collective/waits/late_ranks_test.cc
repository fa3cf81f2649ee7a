#include "atp/collective/waits/late_ranks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace atp {
namespace {

using std::chrono::milliseconds;

RankSet set_of(const std::vector<Rank>& ranks) {
  RankSet set;
  for (const Rank rank : ranks) set.insert(rank);
  return set;
}

struct Look {
  int at_ms;
  std::vector<Rank> ranks;
};

struct Row {
  std::string name;
  std::vector<Look> looks;  // the wait began at 0
  std::vector<std::string> lines;
};

TEST(LateRanks, AreNamedOnceThenRarelyAndWhenTheyGoOn) {
  const std::string first = "waiting for 1 s: late";
  const std::vector<Row> rows = {
      {"nobody is late", {{1000, {}}, {9000, {}}}, {}},
      {"a rank is late and resumes",
       {{1000, {2}}, {1100, {2}}, {2550, {}}},
       {first, "rank 2 has resumed: this rank waited for 2.5 s"}},
      {"of two ranks one resumes",
       {{1000, {1, 2}}, {1500, {2}}, {2000, {}}},
       {first, "rank 1 has resumed: this rank waited for 1.5 s",
        "rank 2 has resumed: this rank waited for 2 s"}},
      {"another rank joins", {{1000, {2}}, {3000, {2, 3}}}, {first, "waiting for 3 s: late"}},
      {"the wait lasts: the pauses grow",
       {{1000, {2}}, {10'900, {2}}, {11'000, {2}}, {30'900, {2}}, {31'000, {2}}},
       {first, "waiting for 11 s: late", "waiting for 31 s: late"}},
      {"a rank that comes and goes is not named again at once",
       {{1000, {2}}, {1500, {}}, {3000, {2}}, {3500, {}}},
       {first, "rank 2 has resumed: this rank waited for 1.5 s"}},
  };
  for (const Row& row : rows) {
    LateRanks late;
    const LateRanks::Time begin{milliseconds(1'000'000)};
    std::vector<std::string> lines;
    for (const Look& look : row.looks) {
      late.observe(begin + milliseconds(look.at_ms), set_of(look.ranks), begin,
                   [] { return std::string("late"); });
      while (const auto line = late.take_line()) lines.push_back(line->text);
    }
    EXPECT_EQ(lines, row.lines) << row.name;
  }
}

TEST(LateRanks, CountsTheWaitsThatHaveEndedByRank) {
  LateRanks late;
  const LateRanks::Time begin{milliseconds(1'000'000)};
  const auto why = [] { return std::string(); };
  late.observe(begin + milliseconds(1000), set_of({1, 2}), begin, why);
  EXPECT_TRUE(late.waits().empty());
  late.observe(begin + milliseconds(1500), set_of({2}), begin, why);
  const auto now = late.waited_for(begin + milliseconds(1500), "barrier #3");
  ASSERT_TRUE(now.has_value());
  EXPECT_EQ(now->ranks, std::vector<Rank>{2});
  EXPECT_EQ(now->waited, milliseconds(1500));
  late.end(begin + milliseconds(2000));
  EXPECT_EQ(late.waits().at(1), milliseconds(1500));
  EXPECT_EQ(late.waits().at(2), milliseconds(2000));
  EXPECT_FALSE(late.waited_for(begin, "").has_value());
}

}  // namespace
}  // namespace atp
