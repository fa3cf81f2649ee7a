#include "atp/core/worker/block_layout.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace atp {
namespace {

using Lengths = std::vector<std::size_t>;

TEST(BlockLayout, BlocksTileTheValuesAndRestartAtEachSegment) {
  const Lengths cases[] = {{1},      {256},          {257},         {1, 1, 1},
                           {300, 5}, {0, 7, 0, 512}, {256, 256, 1}, {1000, 1, 2000}};
  for (const Lengths& lengths : cases) {
    const BlockLayout layout(lengths);
    std::size_t value = 0;
    std::size_t number = 0;
    for (const std::size_t length : lengths) {
      for (std::size_t done = 0; done < length;) {
        const std::size_t size = std::min<std::size_t>(256, length - done);
        const BlockRun block = layout.block(number);
        EXPECT_EQ(block.block, number);
        EXPECT_EQ(block.begin, value);
        EXPECT_EQ(block.end, value + size);
        EXPECT_EQ(layout.block_at(value).block, number);
        EXPECT_EQ(layout.block_at(value + size - 1).block, number);
        value += size;
        done += size;
        ++number;
      }
    }
    EXPECT_EQ(layout.values(), value);
    EXPECT_EQ(layout.blocks(), number);
  }
}

TEST(BlockLayout, ItHasTheLengthsOfTheSegmentsWithValues) {
  EXPECT_EQ(BlockLayout(Lengths{300, 5}).lengths(), (Lengths{300, 5}));
  EXPECT_EQ(BlockLayout(Lengths{0, 7, 0, 512}).lengths(), (Lengths{7, 512}));
  EXPECT_EQ(BlockLayout(Lengths{12}).lengths(), Lengths());
  EXPECT_EQ(BlockLayout(12).lengths(), Lengths());
}

TEST(BlockLayout, OtherSegmentsHaveAnotherFingerprintAndASingleOneHasNone) {
  EXPECT_EQ(BlockLayout(12).fingerprint(), 0u);
  EXPECT_EQ(BlockLayout(Lengths{12}).fingerprint(), 0u);
  EXPECT_EQ(BlockLayout(Lengths{0, 12, 0}).fingerprint(), 0u);
  const std::set<std::uint32_t> different{BlockLayout(Lengths{1, 11}).fingerprint(),
                                          BlockLayout(Lengths{11, 1}).fingerprint(),
                                          BlockLayout(Lengths{1, 1, 10}).fingerprint(), 0u};
  EXPECT_EQ(different.size(), 4u);
}

// The vectors of docs/inside/protocol §5.
TEST(BlockLayout, ItsFingerprintMatchesThePage) {
  EXPECT_EQ(BlockLayout(Lengths{300, 0, 1, 5000}).fingerprint(), 0x7a3e05ceu);
  EXPECT_EQ(BlockLayout(Lengths{1ULL << 33, 1ULL << 34}).fingerprint(), 0xba300f28u);
  EXPECT_EQ(BlockLayout(Lengths{2047, 1}).fingerprint(), 0x3a49ef0eu);
}

TEST(BlockLayout, APartHasTheBlocksOfTheWhole) {
  const BlockLayout whole(Lengths{300, 700, 5});
  const std::size_t cut = whole.block(3).begin;
  const BlockLayout front = whole.part(0, cut);
  const BlockLayout back = whole.part(cut, whole.values());
  ASSERT_EQ(front.blocks() + back.blocks(), whole.blocks());
  for (std::size_t i = 0; i < whole.blocks(); ++i) {
    const bool in_front = i < front.blocks();
    const BlockRun block = in_front ? front.block(i) : back.block(i - front.blocks());
    const std::size_t shift = in_front ? 0 : cut;
    EXPECT_EQ(block.begin + shift, whole.block(i).begin);
    EXPECT_EQ(block.end + shift, whole.block(i).end);
  }
}

TEST(BlockLayout, NoValuesAreNoBlocks) {
  EXPECT_EQ(BlockLayout(0).blocks(), 0u);
  EXPECT_EQ(BlockLayout(Lengths{}).blocks(), 0u);
  EXPECT_EQ(BlockLayout(Lengths{0, 0}).blocks(), 0u);
}

}  // namespace
}  // namespace atp
