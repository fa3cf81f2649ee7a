#include "atp/collective/peer/spare_memory.h"

#include <gtest/gtest.h>

namespace atp {
namespace {

std::vector<Scratch> some(SpareMemory& spare, std::vector<std::size_t> sizes) {
  std::vector<Scratch> taken;
  for (const std::size_t bytes : sizes) taken.push_back(spare.take(bytes));
  return taken;
}

TEST(SpareMemory, IsUsedAgainForWhatNeedsAtLeastHalfOfIt) {
  SpareMemory spare;
  constexpr std::size_t kSize = 2 * SpareMemory::kLeast;
  Scratch first = spare.take(kSize);
  const std::byte* memory = first.memory.get();
  std::vector<Scratch> used;
  used.push_back(std::move(first));
  spare.give(std::move(used));
  EXPECT_NE(spare.take(kSize / 2 - 1).memory.get(), memory);
  EXPECT_NE(spare.take(kSize + 1).memory.get(), memory);
  const Scratch again = spare.take(kSize / 2);
  EXPECT_EQ(again.memory.get(), memory);
  EXPECT_EQ(again.bytes, kSize);
  EXPECT_EQ(spare.bytes(), 0U);
}

TEST(SpareMemory, KeepsWhatWasUsedLast) {
  constexpr std::size_t kThird = SpareMemory::kMost / 3;
  SpareMemory spare;
  spare.give(
      some(spare, {kThird, kThird, kThird, SpareMemory::kLeast - 1, SpareMemory::kMost + 1}));
  EXPECT_EQ(spare.bytes(), 3 * kThird);
  Scratch last = spare.take(SpareMemory::kLeast);
  const std::byte* memory = last.memory.get();
  std::vector<Scratch> used;
  used.push_back(std::move(last));
  spare.give(std::move(used));
  EXPECT_EQ(spare.bytes(), 2 * kThird + SpareMemory::kLeast);
  EXPECT_EQ(spare.take(SpareMemory::kLeast).memory.get(), memory);
}

}  // namespace
}  // namespace atp
