#include "atp/collective/host/row_reduction.h"

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
// (host_lane_test.cc compares all types and formats with a real network.)

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
