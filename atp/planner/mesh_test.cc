#include "atp/planner/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "atp/planner/search.h"
#include "atp/planner/testing_interconnects.h"

namespace atp::planner {
namespace {

using ::testing::ElementsAre;

TEST(RanksByPosition, AreInOrderForAContiguousLayout) {
  EXPECT_THAT(ranks_by_position({{2, 1}, {1, 2}}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(ranks_by_position({{2, 3}}), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(RanksByPosition, PutsDimension2AcrossNodesIfItIsOnTheUpperLevel) {
  // Node 0 holds column 0 of both rows, node 1 column 1.
  EXPECT_THAT(ranks_by_position({{1, 2}, {2, 1}}), ElementsAre(0, 2, 1, 3));
}

TEST(MeshOf, MultipliesTheLevels) {
  EXPECT_EQ(mesh_of({{4, 1}, {2, 2}}), (Mesh{8, 2}));
  EXPECT_EQ(mesh_of({}), (Mesh{1, 1}));
}

TEST(ContiguousLayout, GivesDimension1TheUpperLevels) {
  const Interconnect figure = testing::figure_7a();
  EXPECT_THAT(contiguous_layout(figure, {8, 2}), ElementsAre(LevelSplit{4, 1}, LevelSplit{2, 2}));
  EXPECT_THAT(contiguous_layout(figure, {2, 8}), ElementsAre(LevelSplit{2, 2}, LevelSplit{1, 4}));
  EXPECT_THAT(contiguous_layout(figure, {16, 1}), ElementsAre(LevelSplit{4, 1}, LevelSplit{4, 1}));
}

TEST(ContiguousLayout, IsEmptyIfTheCountsDoNotAllowIt) {
  const Interconnect odd =
      testing::two_levels(testing::switched("node", 3, 1), testing::switched("gpu", 4, 1));
  EXPECT_TRUE(contiguous_layout(odd, {4, 3}).empty());
  EXPECT_TRUE(contiguous_layout(odd, {2, 6}).empty());
  EXPECT_FALSE(contiguous_layout(odd, {6, 2}).empty());
}

TEST(Layouts, AreAllCombinationsOfSplits) {
  const Interconnect interconnect =
      testing::two_levels(testing::switched("node", 6, 1), testing::switched("gpu", 4, 1));
  std::size_t seen = 0;
  for_each_layout(interconnect, [&](const MeshLayout& layout) {
    ++seen;
    EXPECT_EQ(mesh_of(layout).size(), 24u);
  });
  EXPECT_EQ(seen, 12u);
  EXPECT_EQ(layout_count(interconnect), 12u);
}

}  // namespace
}  // namespace atp::planner
