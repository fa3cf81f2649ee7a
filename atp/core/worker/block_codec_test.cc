#include "atp/core/worker/block_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "atp/wire/values.h"

namespace atp {
namespace {

using As = BlockCodec::As;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A block of ones, one of zeros, one with an infinity, and the first value of a second tensor.
class BlockCodecTest : public ::testing::Test {
 protected:
  BlockCodecTest() {
    std::fill_n(values_.begin(), kBlockValues, 1.0F);
    std::fill_n(values_.begin() + 2 * kBlockValues, kBlockValues, 2.0F);
    values_[2 * kBlockValues + 7] = kInfinity;
    values_.back() = 0.5F;
    std::vector<std::uint8_t> wire(2 * layout_.blocks());
    write_exponents(DataType::kFloat32, layout_, 0, layout_.blocks(), tensor(), wire.data());
    read_exponents(wire.data(), exponents_);
  }
  std::byte* tensor() { return reinterpret_cast<std::byte*>(values_.data()); }
  BlockCodec codec(NumberFormat format) const {
    return {DataType::kFloat32, 2, format, layout_, exponents_};
  }
  // Writes the values as 32-bit integers and returns them.
  std::vector<std::int32_t> written(std::size_t begin, std::size_t end) {
    std::vector<std::uint8_t> wire(4 * (end - begin));
    codec(NumberFormat::kBlocks).write(begin, end, As::kIntegers, tensor(), wire.data());
    std::vector<std::int32_t> integers;
    integers.reserve(end - begin);
    for (std::size_t i = 0; i < end - begin; ++i) {
      integers.push_back(static_cast<std::int32_t>(load_value(wire.data() + 4 * i)));
    }
    return integers;
  }

  static constexpr std::size_t kLengths[] = {3 * kBlockValues, 1};
  const BlockLayout layout_{kLengths};
  std::vector<float> values_ = std::vector<float>(layout_.values());
  std::vector<std::int16_t> exponents_ = std::vector<std::int16_t>(layout_.blocks());
};

TEST_F(BlockCodecTest, a_block_is_agreed_on_its_largest_value) {
  EXPECT_THAT(exponents_, ElementsAre(0, kZeroBlock, kSpecialBlock, -1));
}

// 1, 0 and 0.5 in units of their blocks; the blocks have the exponents 0, none, special and -1.
TEST_F(BlockCodecTest, what_travels_has_these_bytes) {
  std::vector<std::uint8_t> exponents(8);
  write_exponents(DataType::kFloat32, layout_, 0, 4, tensor(), exponents.data());
  EXPECT_THAT(exponents, ElementsAre(0x00, 0x00, 0x80, 0x00, 0x7f, 0xff, 0xff, 0xff));
  std::vector<std::uint8_t> wide(12);
  codec(NumberFormat::kBlocks).write(255, 257, As::kIntegers, tensor(), wide.data());
  codec(NumberFormat::kBlocks).write(768, 769, As::kIntegers, tensor(), wide.data() + 8);
  EXPECT_THAT(wide, ElementsAre(0x10, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0));
  std::vector<std::uint8_t> narrow(6);
  codec(NumberFormat::kBlocksInt16).write(255, 257, As::kIntegers, tensor(), narrow.data());
  codec(NumberFormat::kBlocksInt16).write(768, 769, As::kIntegers, tensor(), narrow.data() + 4);
  EXPECT_THAT(narrow, ElementsAre(0x20, 0, 0, 0, 0x20, 0));
}

TEST_F(BlockCodecTest, each_value_is_in_units_of_its_own_block_wherever_a_range_begins) {
  EXPECT_THAT(written(255, 258), ElementsAre(1 << 28, 0, 0));
  EXPECT_THAT(written(768, 769), ElementsAre(1 << 28));
}

TEST_F(BlockCodecTest, integers_of_a_special_block_are_zeros_and_its_values_stay) {
  EXPECT_THAT(written(512, 768), Each(0));
  const std::vector<std::uint8_t> sums(4 * 769, 1);
  codec(NumberFormat::kBlocks).read(500, 769, 1, sums.data(), tensor());
  EXPECT_EQ(values_[511], 0);
  EXPECT_EQ(values_[512], 2);
  EXPECT_EQ(values_[519], kInfinity);
  EXPECT_NE(values_[768], 0.5F);
}

TEST_F(BlockCodecTest, only_ranges_with_a_part_of_a_special_block_hold_one) {
  const BlockCodec codec = this->codec(NumberFormat::kBlocks);
  EXPECT_FALSE(codec.holds_special(0, 512));
  EXPECT_TRUE(codec.holds_special(0, 513));
  EXPECT_TRUE(codec.holds_special(767, 769));
  EXPECT_FALSE(codec.holds_special(768, 769));
  EXPECT_TRUE(codec.holds_special(0, 769)) << "neither the first block nor the last";
}

}  // namespace
}  // namespace atp
