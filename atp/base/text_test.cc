#include "atp/base/text.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

using namespace std::chrono_literals;

RankSet set_of(std::initializer_list<Rank> ranks) {
  RankSet set;
  for (Rank rank : ranks) set.insert(rank);
  return set;
}

TEST(Text, WritesNumbersWithCommas) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(1048576), "1,048,576");
}

TEST(Text, WritesSecondsWithoutTrailingZeros) {
  EXPECT_EQ(seconds_text(30s), "30 s");
  EXPECT_EQ(seconds_text(250ms), "0.25 s");
  EXPECT_EQ(seconds_text(1050ms), "1.05 s");
}

TEST(Text, ListsRanksAsAPersonWould) {
  struct Case {
    RankSet ranks;
    const char* text;
  };
  const Case cases[] = {
      {set_of({3}), "rank 3"},
      {set_of({2, 3}), "ranks 2 and 3"},
      {set_of({0, 1, 7}), "ranks 0, 1 and 7"},
      {set_of({0, 1, 2, 3, 4, 5, 9}), "ranks 0 to 5 and 9"},
      {set_of({0, 2, 4, 6, 8, 10, 12, 14, 16}), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 16"},
      {set_of({0, 2, 4, 6, 8, 10, 12, 14, 16, 18}), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 2 others"},
      {RankSet{}, "no rank"},
  };
  for (const Case& c : cases) EXPECT_EQ(ranks_text(c.ranks), c.text);
}

}  // namespace
}  // namespace atp
