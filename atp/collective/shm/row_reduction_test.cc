#include "atp/collective/shm/row_reduction.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "atp/base/random.h"
#include "atp/core/worker/block_codec.h"
#include "atp/wire/lanes.h"

// Compares with the network: each rank's contribution is written, the switch adds, the sum is read.
// (shm_transport_test.cc compares all types and formats with a real network.)

namespace atp {
namespace {

using Row = std::vector<float>;

std::vector<const std::byte*> pointers(const std::vector<Row>& rows) {
  std::vector<const std::byte*> result;
  for (const Row& row : rows) result.push_back(reinterpret_cast<const std::byte*>(row.data()));
  return result;
}

std::byte* bytes(Row& row) { return reinterpret_cast<std::byte*>(row.data()); }

std::vector<Row> random_rows(std::size_t ranks, std::size_t count) {
  Random random(5);
  std::vector<Row> rows(ranks, Row(count));
  for (Row& row : rows) {
    for (float& value : row) {
      const int exponent = static_cast<int>(random.below(60)) - 30;
      value = std::ldexp(static_cast<float>(2 * random.uniform() - 1), exponent);
    }
  }
  return rows;
}

Row sum_on_the_wire(const std::vector<Row>& rows, NumberFormat format, const BlockLayout& layout) {
  std::vector<std::int16_t> exponents(layout.blocks(), kZeroBlock);
  for (const Row& row : rows) {
    std::vector<std::uint8_t> sent(2 * layout.blocks());
    std::vector<std::int16_t> own(layout.blocks());
    write_exponents(DataType::kFloat32, layout, 0, layout.blocks(),
                    reinterpret_cast<const std::byte*>(row.data()), sent.data());
    read_exponents(sent.data(), own);
    for (std::size_t i = 0; i < own.size(); ++i) exponents[i] = std::max(exponents[i], own[i]);
  }
  const BlockCodec codec(DataType::kFloat32, rows.size(), format, layout, exponents);
  const std::uint8_t kind =
      format == NumberFormat::kBlocks ? ATP_KIND_SUM_BLOCKS : ATP_KIND_SUM_BLOCKS_INT16;
  std::vector<std::uint8_t> lanes(codec.lane_bytes() * layout.values());
  std::vector<std::uint8_t> sum(lanes.size());
  for (const Row& row : rows) {
    codec.write(0, layout.values(), BlockCodec::As::kIntegers,
                reinterpret_cast<const std::byte*>(row.data()), lanes.data());
    combine_lanes(kind, sum.data(), lanes.data(), lanes.size());
  }
  load_lanes(kind, sum.data(), lanes.data(), lanes.size());
  Row result(layout.values());
  codec.read(0, layout.values(), 1, lanes.data(), bytes(result));
  return result;
}

TEST(RowReduction, AddsTheIntegersThatTheNetworkAdds) {
  const std::vector<std::size_t> segments = {700, 3, 1500};
  const BlockLayout layout(segments);
  for (const std::size_t ranks : {2U, 5U, 33U}) {
    for (const auto format : {NumberFormat::kBlocks, NumberFormat::kBlocksInt16}) {
      const std::vector<Row> rows = random_rows(ranks, layout.values());
      const Row expected = sum_on_the_wire(rows, format, layout);
      const RowReduction reduction(DataType::kFloat32, Reduction::kSum, format, false, layout);
      Row result(layout.values());
      reduction.reduce(pointers(rows), 0, layout.values(), bytes(result));
      EXPECT_EQ(result, expected) << ranks;
    }
  }
}

TEST(RowReduction, MayTakeAnyBlocksAndWriteOverARow) {
  const BlockLayout layout(2000);
  std::vector<Row> rows = random_rows(3, 2000);
  const RowReduction reduction(DataType::kFloat32, Reduction::kAverage, NumberFormat::kBlocks,
                               false, layout);
  Row whole(2000);
  reduction.reduce(pointers(rows), 0, 2000, bytes(whole));
  std::vector<Row> parts;
  for (const Row& row : rows) parts.emplace_back(row.begin() + 256, row.begin() + 1024);
  reduction.reduce(pointers(parts), 256, 1024, bytes(parts[1]));
  EXPECT_EQ(parts[1], Row(whole.begin() + 256, whole.begin() + 1024));
}

TEST(RowReduction, ASmallOperationIsExact) {
  const BlockLayout layout(2);
  const std::vector<Row> rows = {{1e30F, 1}, {1, 0x1p-40F}, {-1e30F, -1}};
  const RowReduction reduction(DataType::kFloat32, Reduction::kSum, NumberFormat::kBlocks, true,
                               layout);
  Row result(2);
  reduction.reduce(pointers(rows), 0, 2, bytes(result));
  EXPECT_EQ(result, (Row{1, 0x1p-40F}));
}

TEST(RowReduction, ASumForOneRankAddsFloatsInTheOrderOfRanks) {
  const BlockLayout layout(700);
  for (const auto format : {NumberFormat::kBlocks, NumberFormat::kBlocksInt16}) {
    for (const bool small : {false, true}) {
      for (const Reduction reduction : {Reduction::kSum, Reduction::kAverage}) {
        std::vector<Row> rows = random_rows(5, 700);
        Row expected = rows[0];
        for (std::size_t i = 0; i < 700; ++i) {
          for (std::size_t rank = 1; rank < 5; ++rank) expected[i] += rows[rank][i];
          if (reduction == Reduction::kAverage) expected[i] /= 5;
        }
        const RowReduction own(DataType::kFloat32, reduction, format, small, layout,
                               Recipients::kOne);
        own.reduce(pointers(rows), 0, 700, bytes(rows[3]));  // over a row
        EXPECT_EQ(rows[3], expected);
      }
    }
  }
}

TEST(RowReduction, ASumForOneRankKeepsSmallValuesBesideHugeOnesAndNaN) {
  const BlockLayout layout(4);
  const std::vector<Row> rows = {{1e-3F, 3e38F, std::nanf(""), 1}, {2e-3F, 1e38F, 1, -1}};
  const RowReduction reduction(DataType::kFloat32, Reduction::kSum, NumberFormat::kBlocks, false,
                               layout, Recipients::kOne);
  Row result(4);
  reduction.reduce(pointers(rows), 0, 4, bytes(result));
  EXPECT_EQ(result[0], 1e-3F + 2e-3F);
  EXPECT_EQ(result[1], std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(result[2]));
  EXPECT_EQ(result[3], 0);
}

TEST(RowReduction, ASumForOneRankRoundsSixteenBitsOnce) {
  const BlockLayout layout(1);
  const auto bfloat16 = [](float value) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  };
  // 1 + 2^-8 is halfway between two values of bfloat16: rounded after each addition, it stays 1.
  const std::vector<std::uint16_t> values = {bfloat16(1), bfloat16(0x1p-8F), bfloat16(0x1p-8F)};
  std::vector<const std::byte*> rows;
  for (const std::uint16_t& value : values) {
    rows.push_back(reinterpret_cast<const std::byte*>(&value));
  }
  const RowReduction reduction(DataType::kBFloat16, Reduction::kSum, NumberFormat::kBlocks, false,
                               layout, Recipients::kOne);
  std::uint16_t result = 0;
  reduction.reduce(rows, 0, 1, reinterpret_cast<std::byte*>(&result));
  EXPECT_EQ(result, bfloat16(1 + 0x1p-7F));
}

TEST(RowReduction, ASumForOneRankIsExactIfTheFormatIs) {
  const BlockLayout layout(1);
  const std::vector<Row> rows = {{1e30F}, {1}, {-1e30F}};
  const RowReduction reduction(DataType::kFloat32, Reduction::kSum, NumberFormat::kExact, false,
                               layout, Recipients::kOne);
  Row result(1);
  reduction.reduce(pointers(rows), 0, 1, bytes(result));
  EXPECT_EQ(result, Row{1});
}

TEST(RowReduction, OneRowIsCopiedWhateverItContains) {
  const BlockLayout layout(300);
  std::vector<Row> rows = random_rows(1, 300);
  rows[0][7] = std::numeric_limits<float>::infinity();
  rows[0][8] = -0.0F;
  const RowReduction reduction(DataType::kFloat32, Reduction::kSum, NumberFormat::kBlocks, false,
                               layout);
  Row result(300);
  reduction.reduce(pointers(rows), 0, 300, bytes(result));
  EXPECT_EQ(std::memcmp(result.data(), rows[0].data(), 1200), 0);
}

TEST(RowReduction, IntegersWrapAroundAndAreCompared) {
  const BlockLayout layout(2);
  using Integers = std::vector<std::int32_t>;
  const Integers a = {std::numeric_limits<std::int32_t>::max(), -3};
  const Integers b = {2, -5};
  const std::vector<const std::byte*> rows = {reinterpret_cast<const std::byte*>(a.data()),
                                              reinterpret_cast<const std::byte*>(b.data())};
  const auto reduced = [&](Reduction how) {
    const RowReduction reduction(DataType::kInt32, how, NumberFormat::kBlocks, false, layout);
    Integers result(2);
    reduction.reduce(rows, 0, 2, reinterpret_cast<std::byte*>(result.data()));
    return result;
  };
  EXPECT_EQ(reduced(Reduction::kSum), (Integers{std::numeric_limits<std::int32_t>::min() + 1, -8}));
  EXPECT_EQ(reduced(Reduction::kMax), (Integers{a[0], -3}));
  EXPECT_EQ(reduced(Reduction::kMin), (Integers{2, -5}));
}

TEST(RowReduction, OfElementsTakesAnyType) {
  const BlockLayout layout(3);
  const std::vector<std::vector<double>> values = {{1e300, 0.1, 3}, {1, 0.2, 5}, {-1e300, 0.3, 7}};
  std::vector<const std::byte*> rows;
  for (const auto& row : values) rows.push_back(reinterpret_cast<const std::byte*>(row.data()));
  const RowReduction reduction(ElementKind::kFloat64, ElementReduction::kSum, layout);
  std::vector<double> result(3);
  reduction.reduce(rows, 0, 3, reinterpret_cast<std::byte*>(result.data()));
  EXPECT_EQ(result, (std::vector<double>{0, (0.1 + 0.2) + 0.3, 15}));  // in the order of ranks
}

TEST(RowReduction, KeepsTheLargestAndTheSmallestAndNaN) {
  const BlockLayout layout(4);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Row> rows = {{1, -0.0F, nan, -5}, {2, 0.0F, 3, -7}};
  struct Case {
    Reduction reduction;
    Row expected;
  };
  for (const Case& c :
       {Case{Reduction::kMax, {2, 0.0F, nan, -5}}, Case{Reduction::kMin, {1, -0.0F, nan, -7}}}) {
    const RowReduction reduction(DataType::kFloat32, c.reduction, NumberFormat::kBlocks, false,
                                 layout);
    Row result(4);
    reduction.reduce(pointers(rows), 0, 4, bytes(result));
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(result[i]),
                std::bit_cast<std::uint32_t>(c.expected[i]))
          << i;
    }
  }
}

}  // namespace
}  // namespace atp
