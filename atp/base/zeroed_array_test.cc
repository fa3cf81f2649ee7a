#include "atp/base/zeroed_array.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace atp {
namespace {

TEST(ZeroedArray, IsZeroAtFirstWhateverItsSize) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 20}) {
    const ZeroedArray<std::uint64_t> array(size);
    ASSERT_EQ(array.size(), size);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(array[i], 0u);
  }
}

TEST(ZeroedArray, ACopyHasItsOwnMemoryWithTheSameContents) {
  for (const std::size_t size : {std::size_t{10}, std::size_t{1} << 20}) {
    ZeroedArray<std::uint32_t> array(size);
    array[size - 1] = 7;
    ZeroedArray<std::uint32_t> copy = array;
    EXPECT_EQ(copy, array);
    copy[0] = 1;
    EXPECT_NE(copy, array);
    EXPECT_EQ(array[0], 0u);
    array = std::move(copy);
    EXPECT_EQ(array[0], 1u);
    EXPECT_EQ(array[size - 1], 7u);
  }
}

TEST(ZeroedArray, HeldBytesFallWhenAnArrayIsDestroyed) {
  const std::size_t before = ZeroedMemory::held_now();
  {
    ZeroedArray<std::uint64_t> array(1 << 20);
    const ZeroedArray<std::uint64_t> moved = std::move(array);
    EXPECT_EQ(ZeroedMemory::held_now() - before, std::size_t{8} << 20);
  }
  EXPECT_EQ(ZeroedMemory::held_now(), before);
}

}  // namespace
}  // namespace atp
