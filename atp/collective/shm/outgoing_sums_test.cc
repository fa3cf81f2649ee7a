#include "atp/collective/shm/outgoing_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "atp/base/random.h"
#include "atp/collective/shm/row_reduction.h"
#include "atp/wire/element.h"

// Compares with one host that has all ranks (which shm_transport_test.cc compares with a real
// network): the bits are the same, however the ranks are spread over hosts.

namespace atp {
namespace {

using Row = std::vector<std::byte>;

struct Job {
  DataType type = DataType::kFloat32;
  Reduction reduction = Reduction::kSum;
  NumberFormat format = NumberFormat::kBlocks;
  bool small = false;
  std::vector<std::size_t> hosts;  // ranks of each
  std::size_t ranks() const {
    std::size_t sum = 0;
    for (const std::size_t of_host : hosts) sum += of_host;
    return sum;
  }
};

std::string text_of(const Job& job) {
  return "type " + std::to_string(static_cast<int>(job.type)) + ", reduction " +
         std::to_string(static_cast<int>(job.reduction)) + ", format " +
         std::to_string(static_cast<int>(job.format)) + (job.small ? ", small, " : ", ") +
         std::to_string(job.hosts.size()) + " hosts";
}

// Ordinary blocks, blocks of zeros, blocks with NaN and infinities, and blocks whose largest value
// is in one rank only.
Row values_for(DataType type, std::size_t rank, std::size_t count) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Random random(77 * rank + 1);
  Row row(count * bytes_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    if (type == DataType::kInt32) {
      const auto value = static_cast<std::int32_t>(random.below(1ULL << 32));
      std::memcpy(row.data() + 4 * i, &value, 4);
      continue;
    }
    float value = std::ldexp(static_cast<float>(2 * random.uniform() - 1),
                             static_cast<int>(i / 256 % 8) * 30 - 120 + static_cast<int>(rank % 5));
    if (type == DataType::kFloat16) value = static_cast<float>(2 * random.uniform() - 1) * 60'000;
    if (i / 256 % 7 == 3) value = rank % 2 == 0 ? 0.0F : -0.0F;
    if (i / 256 % 11 == 4 && i % 50 == rank % 3) value = rank % 2 == 0 ? kInfinity : -kInfinity;
    if (i / 256 % 11 == 4 && i % 97 == 0) value = std::nanf("");
    if (i % 256 == 9 && rank == 0) value = std::ldexp(value, 8);
    element::with_float(
        type, [&](auto of) { decltype(of)::store(row.data() + bytes_of(type) * i, value); });
  }
  return row;
}

using Words = std::vector<std::int32_t>;

// Combines words as the network does.
void combine(Reduction reduction, const Words& from, Words& to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] = reduction == Reduction::kMax
                ? std::max(to[i], from[i])
                : static_cast<std::int32_t>(static_cast<std::uint32_t>(to[i]) +
                                            static_cast<std::uint32_t>(from[i]));
  }
}

Row sum_over_hosts(const Job& job, const std::vector<Row>& rows, const BlockLayout& layout) {
  const OutgoingSums sums(job.type, job.reduction, job.format, job.small, layout, job.ranks());
  std::vector<std::vector<const std::byte*>> of_hosts;
  std::size_t next = 0;
  for (const std::size_t of_host : job.hosts) {
    of_hosts.emplace_back();
    for (std::size_t i = 0; i < of_host; ++i) of_hosts.back().push_back(rows[next++].data());
  }
  const std::size_t count = layout.values();
  Words agreed(sums.is_in_blocks() ? layout.blocks() : 0, -100'000);
  if (sums.is_in_blocks()) {
    for (const auto& of_host : of_hosts) {
      Words own(layout.blocks());
      sums.find_exponents(of_host, 0, count, own.data());
      combine(Reduction::kMax, own, agreed);
    }
  }
  const std::int32_t* exponents = sums.is_in_blocks() ? agreed.data() : nullptr;
  Words total;
  for (const auto& of_host : of_hosts) {
    Words own(sums.words(0, count, exponents));
    EXPECT_LE(own.size(), OutgoingSums::most_words(count));
    sums.sum(of_host, 0, count, exponents, own.data());
    if (total.empty()) {
      total = own;
    } else {
      combine(sums.of_words(), own, total);
    }
  }
  Row result(count * bytes_of(job.type));
  sums.read(total.data(), 0, count, exponents, result.data());
  return result;
}

TEST(OutgoingSums, HaveTheBitsOfOneHostWithAllRanks) {
  const std::vector<std::size_t> segments = {300, 1, 0, 5000, 257};
  for (const auto& layout : {BlockLayout(6001), BlockLayout(segments)}) {
    for (const auto& hosts :
         std::vector<std::vector<std::size_t>>{{2, 2}, {4, 1, 3}, {1, 1, 2}, {40, 24}, {1, 3}}) {
      for (const auto type :
           {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16, DataType::kInt32}) {
        for (const auto reduction :
             {Reduction::kSum, Reduction::kAverage, Reduction::kMax, Reduction::kMin}) {
          if (type == DataType::kInt32 && reduction == Reduction::kAverage) continue;
          for (const auto format :
               {NumberFormat::kBlocks, NumberFormat::kBlocksInt16, NumberFormat::kExact}) {
            for (const bool small : {false, true}) {
              const Job job{type, reduction, format, small, hosts};
              std::vector<Row> rows;
              std::vector<const std::byte*> all;
              for (std::size_t rank = 0; rank < job.ranks(); ++rank) {
                rows.push_back(values_for(type, rank, layout.values()));
              }
              for (const Row& row : rows) all.push_back(row.data());
              Row expected(rows.front().size());
              RowReduction(type, reduction, format, small, layout)
                  .reduce(all, 0, layout.values(), expected.data());
              ASSERT_TRUE(sum_over_hosts(job, rows, layout) == expected) << text_of(job);
            }
          }
        }
      }
    }
  }
}

TEST(OutgoingSums, SendNothingForZeros) {
  const BlockLayout layout(1000);
  const OutgoingSums sums(DataType::kFloat32, Reduction::kSum, NumberFormat::kBlocks, false, layout,
                          4);
  const std::vector<float> zeros(1000);
  const std::byte* rows[] = {reinterpret_cast<const std::byte*>(zeros.data())};
  Words exponents(layout.blocks());
  sums.find_exponents(rows, 0, 1000, exponents.data());
  EXPECT_EQ(sums.words(0, 1000, exponents.data()), 0U);
}

}  // namespace
}  // namespace atp
