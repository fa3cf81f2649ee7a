#include "atp/base/rank_set.h"

#include <gtest/gtest.h>

#include <vector>

namespace atp {
namespace {

std::vector<Rank> members(const RankSet& set) {
  std::vector<Rank> ranks;
  set.for_each([&](Rank r) { ranks.push_back(r); });
  return ranks;
}

TEST(RankSet, ARankIsOneBitInItsWord) {
  for (Rank r : {0, 1, 63, 64, 65, 511, 1023}) {
    const RankSet set = RankSet::of(r);
    EXPECT_EQ(set.words()[r / 64], std::uint64_t{1} << (r % 64));
    EXPECT_EQ(members(set), std::vector<Rank>{r});
    EXPECT_EQ(set.lowest(), r);
    EXPECT_EQ(set.size(), 1u);
  }
}

TEST(RankSet, FirstHoldsExactlyTheLowRanks) {
  for (std::size_t n : {0, 1, 63, 64, 65, 128, 1024}) {
    const RankSet set = RankSet::first(n);
    EXPECT_EQ(set.size(), n);
    EXPECT_EQ(set.empty(), n == 0);
    if (n > 0) {
      EXPECT_TRUE(set.contains(static_cast<Rank>(n - 1)));
    }
    if (n < kMaxRanks) {
      EXPECT_FALSE(set.contains(static_cast<Rank>(n)));
    }
  }
}

TEST(RankSet, IsSingleOnlyWithExactlyOneRank) {
  EXPECT_FALSE(RankSet{}.is_single());
  for (Rank rank : {0, 63, 64, 1023}) EXPECT_TRUE(RankSet::of(rank).is_single()) << rank;
  EXPECT_FALSE((RankSet::of(5) | RankSet::of(6)).is_single()) << "in one word";
  EXPECT_FALSE((RankSet::of(5) | RankSet::of(70)).is_single()) << "in two words";
  EXPECT_FALSE((RankSet::of(5) | RankSet::of(70) | RankSet::of(71)).is_single());
}

TEST(RankSet, SetAlgebraAgreesWithMembership) {
  RankSet a = RankSet::of(1) | RankSet::of(70) | RankSet::of(1000);
  RankSet b = RankSet::of(70) | RankSet::of(2);
  EXPECT_EQ(members(a & b), (std::vector<Rank>{70}));
  EXPECT_EQ(members(a - b), (std::vector<Rank>{1, 1000}));
  EXPECT_EQ(members(a | b), (std::vector<Rank>{1, 2, 70, 1000}));
  EXPECT_TRUE(a.intersects(b));
  EXPECT_FALSE((a - b).intersects(b));
  EXPECT_TRUE((a | b).contains(b));
  EXPECT_FALSE(a.contains(b));
  EXPECT_TRUE(a.contains(RankSet{}));
  a.erase(70);
  EXPECT_EQ(members(a), (std::vector<Rank>{1, 1000}));
}

// The operations look only at the words that a set has used, so sets of different widths must work
// together in both directions.
TEST(RankSet, SetsOfDifferentWidthsWorkTogether) {
  const RankSet low = RankSet::first(3);
  RankSet wide = RankSet::first(2);
  wide.insert(1000);
  RankSet erased = wide;
  erased.erase(1000);
  EXPECT_EQ(members(low | wide), (std::vector<Rank>{0, 1, 2, 1000}));
  EXPECT_EQ(low | wide, wide | low);
  EXPECT_EQ(members(low & wide), (std::vector<Rank>{0, 1}));
  EXPECT_EQ(low & wide, wide & low);
  EXPECT_EQ(members(low - wide), std::vector<Rank>{2});
  EXPECT_EQ(members(wide - low), std::vector<Rank>{1000});
  EXPECT_TRUE(low.intersects(wide));
  EXPECT_TRUE(wide.intersects(low));
  EXPECT_FALSE(low.contains(wide));
  EXPECT_FALSE(wide.contains(low));
  EXPECT_TRUE(low.contains(erased));
  EXPECT_NE(wide, erased);
  EXPECT_NE(erased, wide);
  EXPECT_EQ(erased, RankSet::first(2));
  EXPECT_EQ(RankSet::first(2), erased);
  EXPECT_FALSE(low.contains(1000));
  EXPECT_TRUE((wide - wide).empty());
  wide.clear();
  EXPECT_EQ(wide, RankSet());
}

}  // namespace
}  // namespace atp
