#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "atp/base/random.h"
#include "atp/wire/block_values.h"
#include "atp/wire/element.h"
#include "atp/wire/lanes.h"
#include "atp/wire/plain_values.h"

// The functions for a caller that holds the values of all ranks, one row per rank, give the same
// bits as if the values had travelled.

namespace atp {
namespace {

using Floats = std::vector<float>;

const std::byte* bytes(const Floats& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

TEST(Rows, HaveTheLargestExponentOfAny) {
  const Floats one{1, 0.1F};
  const Floats eight{0, -8};
  const Floats zeros{0, -0.0F};
  const Floats special{std::numeric_limits<float>::quiet_NaN(), 1};
  const auto exponent = [](const std::vector<Floats>& rows) {
    std::vector<const std::byte*> at;
    for (const Floats& row : rows) at.push_back(bytes(row));
    return block_exponent_of_rows(DataType::kFloat32, at, rows.front().size());
  };
  EXPECT_EQ(exponent({one, eight, zeros}), 3);
  EXPECT_EQ(exponent({eight, one}), 3);
  EXPECT_EQ(exponent({zeros, zeros}), kZeroBlock);
  EXPECT_EQ(exponent({one, special, zeros}), kSpecialBlock);
}

struct RowsCase {
  DataType type;
  NumberFormat format;
  std::size_t ranks;
  std::size_t count;
  float divisor;
};

// Random values that fit the exponent, as bytes of the type.
std::vector<std::byte> random_row(const RowsCase& c, int exponent, Random& random) {
  std::vector<std::byte> row(c.count * bytes_of(c.type));
  for (std::size_t i = 0; i < c.count; ++i) {
    const float value = std::ldexp(static_cast<float>(2 * random.uniform() - 1), exponent);
    element::with_float(c.type, [&](auto of) {
      decltype(of)::store(row.data() + bytes_of(c.type) * i, i % 7 == 3 ? 0 : value);
    });
  }
  return row;
}

void expect_the_sum_of_the_integers(const RowsCase& c, int exponent) {
  Random random(c.ranks + c.count);
  std::vector<std::vector<std::byte>> rows;
  std::vector<const std::byte*> at;
  for (std::size_t rank = 0; rank < c.ranks; ++rank)
    rows.push_back(random_row(c, exponent, random));
  for (const auto& row : rows) at.push_back(row.data());
  const BlockUnit unit(block_exponent_of_rows(c.type, at, c.count), c.ranks, c.format);
  const bool narrow = c.format == NumberFormat::kBlocksInt16;
  const std::uint8_t kind = narrow ? ATP_KIND_SUM_BLOCKS_INT16 : ATP_KIND_SUM_BLOCKS;
  std::vector<std::uint8_t> wire((narrow ? 2 : 4) * c.count);
  std::vector<std::uint8_t> lanes(wire.size());
  for (const std::byte* row : at) {
    quantize(c.type, row, c.count, unit, c.format, wire.data());
    combine_lanes(kind, lanes.data(), wire.data(), wire.size());
  }
  load_lanes(kind, lanes.data(), wire.data(), wire.size());
  std::vector<std::byte> expected(rows.front().size());
  dequantize(wire.data(), c.count, unit, c.format, c.divisor, c.type, expected.data());
  std::vector<std::byte> sum(expected.size());
  sum_rows_in_units(c.type, at, c.count, unit, c.divisor, sum.data());
  EXPECT_EQ(sum, expected) << c.ranks << " rows of " << c.count;
  sum_rows_in_units(c.type, at, c.count, unit, c.divisor, rows.back().data());
  EXPECT_EQ(rows.back(), expected) << "over one of the rows";
}

TEST(Rows, AddUpToTheSumOfTheirIntegers) {
  for (const auto type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16}) {
    for (const auto format : {NumberFormat::kBlocks, NumberFormat::kBlocksInt16}) {
      for (const std::size_t ranks : {1U, 2U, 7U, 64U}) {
        for (const std::size_t count : {1U, 100U, 256U}) {
          const RowsCase c{type, format, ranks, count, ranks == 7 ? 7.0F : 1.0F};
          expect_the_sum_of_the_integers(c, 0);
          if (type != DataType::kFloat16) expect_the_sum_of_the_integers(c, -130);
          if (type != DataType::kFloat16) expect_the_sum_of_the_integers(c, 127);
        }
      }
    }
  }
}

TEST(Rows, MoreThanABlockStopsTheProcess) {
  const std::vector<float> row(kBlockValues + 1, 1.0F);
  std::vector<std::byte> sum(4 * row.size());
  const std::vector<const std::byte*> rows(2, std::as_bytes(std::span(row)).data());
  const BlockUnit unit(0, 2, NumberFormat::kBlocks);
  EXPECT_DEATH(sum_rows_in_units(DataType::kFloat32, rows, row.size(), unit, 1, sum.data()),
               "count <= kBlockValues");
}

TEST(Rows, AreComparedAsLanesAre) {
  constexpr std::size_t kValues = 1100;
  Random random(7);
  for (const auto type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16}) {
    for (const auto reduction : {Reduction::kMax, Reduction::kMin}) {
      const std::uint8_t kind = ATP_KIND_MAX_PLAIN;
      std::vector<std::vector<std::byte>> rows(3);
      std::vector<const std::byte*> at;
      std::vector<std::uint8_t> wire(4 * kValues);
      std::vector<std::uint8_t> sum(4 * kValues);
      for (auto& row : rows) {
        while (row.size() < kValues * bytes_of(type)) row.push_back(std::byte(random.below(256)));
        at.push_back(row.data());
        write_plain(type, reduction, row.data(), kValues, wire.data());
        if (at.size() == 1) {
          store_lanes(kind, sum.data(), wire.data(), wire.size());
        } else {
          combine_lanes(kind, sum.data(), wire.data(), wire.size());
        }
      }
      load_lanes(kind, sum.data(), wire.data(), wire.size());
      std::vector<std::byte> expected(rows.front().size());
      read_plain(type, reduction, wire.data(), kValues, expected.data());
      std::vector<std::byte> combined(expected.size());
      compare_plain_rows(type, reduction, at, kValues, combined.data());
      EXPECT_EQ(combined, expected);
      compare_plain_rows(type, reduction, at, kValues, rows[1].data());
      EXPECT_EQ(rows[1], expected);
    }
  }
}

}  // namespace
}  // namespace atp
