#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "atp/base/random.h"
#include "atp/collective/testing/peers.h"
#include "atp/sim/reference_numbers.h"

// The peers' sums of float32 by the rule of numbers have its bits, which are the network's
// (docs/inside/protocol §5). Compares with the simulator's second implementation of that page.

namespace atp {
namespace {

using testing::count_of;
using testing::TestingPeers;
using testing::writable;
using Tensor = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Draws one value of a rank's tensor. `shared` draws the same on all ranks.
using Draw = float (*)(Random& own, Random& shared, std::size_t rank);

float of_any_magnitude(Random& own, Random&, std::size_t) {
  const auto bits = static_cast<std::uint32_t>(own.next());
  const auto value = std::bit_cast<float>(bits);
  return std::isfinite(value) ? value : std::bit_cast<float>(bits & 0x807fffffU);  // a denormal
}
float like_a_gradient(Random& own, Random&, std::size_t rank) {
  return static_cast<float>((own.uniform() - 0.5) * std::exp2(-3.0 * static_cast<double>(rank)));
}
float denormal(Random& own, Random&, std::size_t) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(own.next()) & 0x800fffffU);
}
float zero(Random& own, Random&, std::size_t) { return own.chance(0.5) ? 0.0F : -0.0F; }
float mostly_zero(Random& own, Random& shared, std::size_t) {
  const bool full = shared.chance(0.002);
  return full ? static_cast<float>(own.uniform()) : 0.0F;
}
float nearly_cancelling(Random& own, Random& shared, std::size_t rank) {
  const double common = shared.uniform() * 1e20;
  return static_cast<float>((rank % 2 == 0 ? common : -common) + own.uniform() * 1e13);
}
float half_a_unit(Random& own, Random& shared, std::size_t) {
  // Given the largest value in the block, these are odd multiples of half a 32-bit unit for two
  // ranks.
  const auto halves = static_cast<float>(2 * own.below(64) + 1) * 0x1p-15F;
  return shared.chance(0.05) ? 0x1p13F : halves;
}
float just_below_a_power_of_two(Random&, Random&, std::size_t) { return 0x1.fffffep20F; }
float close_to_overflow(Random& own, Random&, std::size_t) {
  return static_cast<float>((own.uniform() - 0.5) * 6.8e38);
}
float special_at_one_rank(Random& own, Random& shared, std::size_t rank) {
  const float special[] = {kNan, kInfinity, -kInfinity};
  const bool here = shared.chance(0.001) && rank == 0;
  return here ? special[own.below(3)] : like_a_gradient(own, shared, rank);
}
float special_at_some_ranks(Random& own, Random& shared, std::size_t rank) {
  const float special[] = {kNan, kInfinity, -kInfinity, 1.0F};
  return shared.chance(0.01) ? special[own.below(4)] : like_a_gradient(own, shared, rank);
}
float special_everywhere(Random& own, Random&, std::size_t) {
  const float special[] = {kNan,       kInfinity,
                           -kInfinity, 1.0F,
                           -1e-30F,    std::bit_cast<float>(0xffc12345U)};  // a NaN with a payload
  return special[own.below(6)];
}

struct Fill {
  const char* name;
  Draw draw;
};
constexpr Fill kFills[] = {{"of any magnitude", of_any_magnitude},
                           {"like gradients", like_a_gradient},
                           {"denormal", denormal},
                           {"zero", zero},
                           {"mostly zero", mostly_zero},
                           {"nearly cancelling", nearly_cancelling},
                           {"halves of a unit", half_a_unit},
                           {"just below a power of two", just_below_a_power_of_two},
                           {"close to overflow", close_to_overflow},
                           {"special on one rank", special_at_one_rank},
                           {"special on some ranks", special_at_some_ranks},
                           {"special everywhere", special_everywhere}};

struct Sum {
  Fill fill;
  std::vector<std::size_t> segments;  // of one element: a tensor
  Reduction reduction = Reduction::kSum;
  NumberFormat format = NumberFormat::kBlocks;

  std::size_t values() const {
    std::size_t sum = 0;
    for (const std::size_t length : segments) sum += length;
    return sum;
  }
  std::string name() const {
    return std::to_string(values()) + " values " + fill.name + " in " +
           std::to_string(segments.size()) + " tensors, reduction " +
           std::to_string(static_cast<int>(reduction)) + ", format " +
           std::to_string(static_cast<int>(format));
  }
};

Tensor tensor_of(const Sum& sum, std::size_t rank) {
  Random own(1000 * rank + sum.values());
  Random shared(sum.values());
  Tensor tensor(sum.values());
  for (float& value : tensor) value = sum.fill.draw(own, shared, rank);
  return tensor;
}

std::vector<std::uint32_t> bits_of(const Tensor& tensor) {
  std::vector<std::uint32_t> bits;
  bits.reserve(tensor.size());
  for (const float value : tensor) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

// The expected bits; a NaN in the results is the canonical one.
std::vector<std::uint32_t> expected(const Sum& sum, std::size_t ranks) {
  if (ranks == 1) return bits_of(tensor_of(sum, 0));  // a copy
  std::vector<std::vector<double>> inputs;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Tensor tensor = tensor_of(sum, rank);
    inputs.push_back(sim::values_of(DataType::kFloat32, writable(tensor)));
  }
  const OperationSpec spec{.count = sum.values(), .reduction = sum.reduction, .format = sum.format};
  const bool exact =
      sum.format == NumberFormat::kExact || sum.values() <= std::max<std::size_t>(16, 4096 / ranks);
  const std::vector<double> result =
      exact ? sim::exact_result(spec, inputs) : sim::block_result(spec, sum.segments, inputs);
  std::vector<std::uint32_t> bits;
  bits.reserve(result.size());
  for (const double value : result) {
    bits.push_back(std::isnan(value) ? 0x7fc00000U
                                     : std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  }
  return bits;
}

CollectiveRequest request_of(const Sum& sum, Tensor& tensor) {
  CollectiveRequest request{.call = Collective::kAllReduce,
                            .kind = ElementKind::kFloat32,
                            .reduction = sum.reduction == Reduction::kAverage
                                             ? ElementReduction::kAverage
                                             : ElementReduction::kSum,
                            .outputs = {writable(tensor)}};
  request.format = sum.format;
  if (sum.segments.size() > 1) request.segments = sum.segments;
  return request;
}

// Checks the sums one after the other, then all at once.
void check_all(const std::vector<Sum>& sums, std::size_t ranks) {
  std::vector<std::vector<std::uint32_t>> results;
  results.reserve(sums.size());
  for (const Sum& sum : sums) results.push_back(expected(sum, ranks));
  TestingPeers(ranks).run([&](std::size_t rank, Peers& peers) {
    std::vector<Tensor> again;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      Tensor tensor = tensor_of(sums[i], rank);
      again.push_back(tensor);
      ASSERT_TRUE(peers.submit(request_of(sums[i], tensor)).wait().ok());
      ASSERT_EQ(bits_of(tensor), results[i]) << sums[i].name() << ", rank " << rank;
    }
    std::vector<PeerHandle> handles;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      handles.push_back(peers.submit(request_of(sums[i], again[i])));
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      ASSERT_TRUE(handles[i].wait().ok());
      ASSERT_EQ(bits_of(again[i]), results[i]) << sums[i].name() << ", in flight with others";
    }
  });
}

class PeerNumbersByRanks : public ::testing::TestWithParam<std::size_t> {};

constexpr NumberFormat kFormats[] = {NumberFormat::kBlocks, NumberFormat::kBlocksInt16,
                                     NumberFormat::kExact};

TEST_P(PeerNumbersByRanks, have_the_bits_of_the_rule_whatever_the_values_and_however_many) {
  std::vector<Sum> sums;
  for (const Fill& fill : kFills) {
    for (const std::size_t length : {0U, 1U, 2U, 255U, 256U, 257U, 1024U, 1025U, 4097U}) {
      for (const NumberFormat format : kFormats) {
        const bool averages = sums.size() % 3 == 0;
        sums.push_back({fill, {length}, averages ? Reduction::kAverage : Reduction::kSum, format});
      }
    }
  }
  check_all(sums, GetParam());
}

TEST_P(PeerNumbersByRanks, have_the_bits_of_the_rule_for_long_tensors) {
  std::vector<Sum> sums;
  for (const Fill& fill : {kFills[0], kFills[1], kFills[10]}) {
    for (const NumberFormat format : kFormats) sums.push_back({fill, {100'003}, {}, format});
  }
  check_all(sums, GetParam());
}

TEST_P(PeerNumbersByRanks, restart_blocks_at_each_tensor_of_one_call) {
  std::vector<Sum> sums;
  for (const Fill& fill : kFills) {
    for (const NumberFormat format : kFormats) {
      sums.push_back({fill, {1, 300, 0, 256, 3000, 7, 1000}, Reduction::kAverage, format});
      sums.push_back({fill, {10, 20, 30}, Reduction::kSum, format});
    }
  }
  check_all(sums, GetParam());
}

INSTANTIATE_TEST_SUITE_P(ranks, PeerNumbersByRanks, ::testing::Values(1, 2, 3, 4, 8),
                         ::testing::PrintToStringParamName());

// With so many special values that they are gathered in several stages.
TEST(PeerNumbers, of_a_long_tensor_that_is_special_everywhere_have_the_bits_of_the_rule) {
  check_all({{kFills[11], {300'001}}, {kFills[1], {300'001}, {}, NumberFormat::kExact}}, 3);
}

TEST(PeerNumbers, have_the_bytes_of_the_model) {
  constexpr std::size_t kRanks = 4;
  constexpr std::size_t kValues = 100'000;
  constexpr std::size_t kBlocks = (kValues + 255) / 256;
  const std::pair<NumberFormat, std::uint64_t> cases[] = {
      {NumberFormat::kBlocks, 2 * (kRanks - 1) * (4 * kValues + 2 * kBlocks)},
      {NumberFormat::kBlocksInt16, 2 * (kRanks - 1) * (2 * kValues + 2 * kBlocks)},
      {NumberFormat::kExact, (kRanks - 1) * kRanks * 4 * kValues}};
  for (const auto& [format, bytes] : cases) {
    const Sum sum{kFills[1], {kValues}, Reduction::kSum, format};
    std::atomic<std::uint64_t> sent = 0;
    TestingPeers(kRanks).run([&](std::size_t rank, Peers& peers) {
      Tensor tensor = tensor_of(sum, rank);
      ASSERT_TRUE(peers.submit(request_of(sum, tensor)).wait().ok());
      ASSERT_TRUE(peers.shutdown().ok());
      sent += count_of(peers, "peer_bytes_sent");
    });
    // And the heads of frames.
    EXPECT_GE(sent, bytes) << sum.name();
    EXPECT_LE(sent, bytes + bytes / 50) << sum.name();
  }
}

}  // namespace
}  // namespace atp
