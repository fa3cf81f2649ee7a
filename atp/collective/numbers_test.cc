#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "atp/base/random.h"
#include "atp/collective/base/number_text.h"
#include "atp/collective/testing/cluster.h"
#include "atp/wire/element.h"

// Types, reductions, formats and segments of operations, and the errors for invalid ones, over
// loopback through a real switch and a real server.

namespace atp::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::size_t kRanks = 4;
constexpr std::size_t kSmall = 100;
constexpr std::size_t kLarge = 3000;  // of several blocks and fragments
constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16,
                               DataType::kInt32};
constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kAverage, Reduction::kMax,
                                     Reduction::kMin};

// A tensor of whole numbers between -20 and 20, which every type and format carries exactly, as it
// does their sums.
class WholeNumbers {
 public:
  WholeNumbers(DataType type, std::size_t rank, std::size_t count)
      : type_(type), bytes_(count * bytes_of(type)) {
    for (std::size_t i = 0; i < count; ++i) store(i, number(rank, i));
  }
  static int number(std::size_t rank, std::size_t i) {
    return static_cast<int>((7 * i + 13 * rank + i * rank) % 41) - 20;
  }
  double load(std::size_t i) const {
    if (type_ == DataType::kInt32) {
      std::int32_t value;
      std::memcpy(&value, bytes_.data() + 4 * i, 4);
      return value;
    }
    return element::with_float(
        type_, [&](auto of) { return double{decltype(of)::load(bytes_.data() + size() * i)}; });
  }
  Bytes bytes() { return bytes_; }
  ElementKind kind() const { return kind_of(type_); }

 private:
  std::size_t size() const { return bytes_of(type_); }
  void store(std::size_t i, std::int32_t value) {
    if (type_ == DataType::kInt32) {
      std::memcpy(bytes_.data() + 4 * i, &value, 4);
    } else {
      element::with_float(type_, [&](auto of) {
        decltype(of)::store(bytes_.data() + size() * i, static_cast<float>(value));
      });
    }
  }

  DataType type_;
  std::vector<std::byte> bytes_;
};

double expected(Reduction reduction, std::size_t i) {
  std::vector<int> numbers;
  for (std::size_t rank = 0; rank < kRanks; ++rank)
    numbers.push_back(WholeNumbers::number(rank, i));
  if (reduction == Reduction::kMax) return *std::max_element(numbers.begin(), numbers.end());
  if (reduction == Reduction::kMin) return *std::min_element(numbers.begin(), numbers.end());
  double sum = 0;
  for (const int number : numbers) sum += number;
  return reduction == Reduction::kAverage ? sum / kRanks : sum;
}

std::vector<CommunicatorOptions> options_of(const TestingCluster& cluster, NumberFormat format) {
  std::vector<CommunicatorOptions> options = all_options(cluster);
  for (auto& o : options) o.number_format = format;
  return options;
}

class EveryFormat : public ::testing::TestWithParam<NumberFormat> {};

TEST_P(EveryFormat, CarriesEveryTypeAndReductionItSupports) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(options_of(cluster, GetParam()));
  for (const std::size_t count : {kSmall, kLarge}) {
    for (const DataType type : kTypes) {
      for (const Reduction reduction : kReductions) {
        if (!check_kind({type, reduction}, GetParam(), {}, kRanks).ok()) continue;
        in_parallel(kRanks, [&](std::size_t rank) {
          WholeNumbers tensor(type, rank, count);
          const CollectiveRequest options{.reduction = element_reduction_of(reduction)};
          ASSERT_EQ(
              message(
                  communicators[rank]->all_reduce(tensor.bytes(), tensor.kind(), options).wait()),
              "");
          for (std::size_t i = 0; i < count; ++i) {
            ASSERT_EQ(tensor.load(i), expected(reduction, i))
                << name_of(reduction) << " of " << name_of(type) << ", value " << i;
          }
        });
      }
    }
  }
  shut_down(communicators);
}

TEST_P(EveryFormat, GivesAllRanksTheSameBitsWithTheGuaranteedAccuracy) {
  // A unit: 2^(E + 1 + c - 30), or - 15, where values are below 1 (E = -1) and c = 2.
  const std::map<NumberFormat, double> kError = {{NumberFormat::kFixed, kRanks / 2.0 * 1e-8},
                                                 {NumberFormat::kBlocks, kRanks / 2.0 * 0x1p-28},
                                                 {NumberFormat::kBlocksInt16, kRanks * 0x1p-13},
                                                 {NumberFormat::kExact, 0}};
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(options_of(cluster, GetParam()));
  std::vector<std::vector<float>> inputs(kRanks, std::vector<float>(20000));
  Random random(7);
  for (auto& input : inputs) {
    for (float& value : input) value = static_cast<float>(2 * random.uniform() - 1);
  }
  std::vector<std::vector<float>> sums = inputs;
  in_parallel(kRanks, [&](std::size_t rank) {
    EXPECT_EQ(message(communicators[rank]->all_reduce(sums[rank]).wait()), "");
  });
  for (std::size_t i = 0; i < inputs[0].size(); ++i) {
    double truth = 0;
    for (const auto& input : inputs) truth += double{input[i]};
    ASSERT_NEAR(sums[0][i], truth, kError.at(GetParam()) + std::abs(truth) * 0x1p-24);
  }
  for (const auto& sum : sums) EXPECT_EQ(std::memcmp(sum.data(), sums[0].data(), 80000), 0);
  shut_down(communicators);
}

std::string name_of_format(const ::testing::TestParamInfo<NumberFormat>& info) {
  constexpr const char* kNames[] = {"Fixed", "Blocks", "BlocksInt16", "Exact"};
  return kNames[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Numbers, EveryFormat,
                         ::testing::Values(NumberFormat::kFixed, NumberFormat::kBlocks,
                                           NumberFormat::kBlocksInt16, NumberFormat::kExact),
                         name_of_format);

// Large values next to small ones: 300 values of 2^20 and 5,000 of 2^-20.
std::vector<float> two_layers() {
  std::vector<float> tensor(5300, 0x1p-20F);
  std::fill(tensor.begin(), tensor.begin() + 300, 0x1p20F);
  return tensor;
}

TEST(Segments, KeepSmallLayersApartFromLargeOnes) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<float> together = two_layers();
    std::vector<float> apart = two_layers();
    Communicator& communicator = *communicators[rank];
    EXPECT_EQ(message(communicator.all_reduce(together).wait()), "");
    EXPECT_EQ(message(communicator.all_reduce(apart, {.segments = {300, 0, 5000}}).wait()), "");
    EXPECT_EQ(together[300], 0) << "it shares a block with values 2^40 times larger";
    for (std::size_t i = 0; i < apart.size(); ++i) {
      ASSERT_EQ(apart[i], i < 300 ? 0x1p22F : 0x1p-18F) << i;
    }
  });
  shut_down(communicators);
}

TEST(Segments, AreCutForSeveralServersWithoutCuttingABlock) {
  const TestingCluster cluster(kRanks);
  const TestingCluster second(kRanks);
  std::vector<CommunicatorOptions> options = all_options(cluster);
  for (auto& o : options) o.more_routes = {{second.server().endpoint()}};
  const Communicators communicators = join_all(options);
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<float> tensor(200'000, 0x1p-20F);
    std::fill(tensor.begin(), tensor.begin() + 100'100, 0x1p20F);
    const CollectiveRequest segments{.segments = {100'100, 99'900}};
    EXPECT_EQ(message(communicators[rank]->all_reduce(tensor, segments).wait()), "");
    for (std::size_t i = 0; i < tensor.size(); ++i) {
      ASSERT_EQ(tensor[i], i < 100'100 ? 0x1p22F : 0x1p-18F) << i;
    }
  });
  shut_down(communicators);
}

TEST(Formats, AnOperationMayAskForAnotherFormat) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  in_parallel(kRanks, [&](std::size_t rank) {
    // Next to 1, 2^-20 is representable in 32 bits but not in 16, and 2^-60 in neither.
    const auto sum_of_neighbour = [&](float small, std::optional<NumberFormat> format) {
      std::vector<float> tensor(kLarge, 1);
      tensor[7] = small;
      EXPECT_EQ(message(communicators[rank]->all_reduce(tensor, {.format = format}).wait()), "");
      return tensor[7];
    };
    EXPECT_EQ(sum_of_neighbour(0x1p-20F, std::nullopt), 0x1p-18F);
    EXPECT_EQ(sum_of_neighbour(0x1p-20F, NumberFormat::kBlocksInt16), 0);
    EXPECT_EQ(sum_of_neighbour(0x1p-60F, std::nullopt), 0);
    EXPECT_EQ(sum_of_neighbour(0x1p-60F, NumberFormat::kExact), 0x1p-58F);
  });
  shut_down(communicators);
}

TEST(SmallOperations, AreExactWhateverTheirMagnitudes) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<float> tensor{1e6F, 1e-4F, 0x1p-149F, 0x1p126F};
    EXPECT_EQ(message(communicators[rank]->all_reduce(tensor).wait()), "");
    EXPECT_EQ(tensor, (std::vector<float>{4e6F, 4e-4F, 0x1p-147F, HUGE_VALF}));
  });
  shut_down(communicators);
}

TEST(OneRank, HasItsResultAtOnceAndSendsNothing) {
  const TestingCluster cluster(1);
  const Communicators communicators = join_all(cluster);
  for (const Reduction reduction : kReductions) {
    std::vector<float> tensor(kLarge, 1e-30F);
    tensor[7] = 1e30F;
    const std::vector<float> before = tensor;
    EXPECT_EQ(message(communicators[0]
                          ->all_reduce(tensor, {.reduction = element_reduction_of(reduction)})
                          .wait()),
              "");
    EXPECT_EQ(tensor, before);
  }
  for (const auto& [name, value] : communicators[0]->counters()) {
    EXPECT_TRUE(name != "gradients_sent" || value == 0) << value;
  }
  shut_down(communicators);
}

TEST(Refusals, InvalidOperationsLeaveTheJobIntact) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  in_parallel(kRanks, [&](std::size_t rank) {
    Communicator& communicator = *communicators[rank];
    const auto refusal = [&](DataType type, const CollectiveRequest& options) {
      WholeNumbers tensor(type, rank, 10);
      return message(communicator.all_reduce(tensor.bytes(), tensor.kind(), options).wait());
    };
    EXPECT_THAT(refusal(DataType::kInt32, {.reduction = ElementReduction::kAverage}),
                AllOf(HasSubstr("all_reduce #0 (10 values)"), HasSubstr("int32 has no average")));
    EXPECT_THAT(refusal(DataType::kFloat32, {.format = NumberFormat::kFixed}),
                HasSubstr("a fixed scale is a choice for the whole job"));
    EXPECT_THAT(refusal(DataType::kFloat32, {.segments = {3, 6}}),
                HasSubstr("its segments have 9 values and the tensor has 10"));
    std::vector<float> tensor(10, 1);
    EXPECT_EQ(message(communicator.all_reduce(tensor).wait()), "");
    EXPECT_EQ(tensor[9], kRanks);
  });
  shut_down(communicators);
}

TEST(Refusals, SixteenBitsForManyRanksAreRefusedBeforeAnyPacket) {
  const TestingCluster cluster(65);
  CommunicatorOptions options = cluster.options(0);
  options.number_format = NumberFormat::kBlocksInt16;
  const auto result = Communicator::connect(options);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message,
              AllOf(HasSubstr("wire=int16"), HasSubstr("up to 64 ranks"), HasSubstr("int32")));
}

TEST(Disagreement, OnTheWireOfAnOperationIsReportedToEveryRank) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<float> tensor(kLarge, 1);
    CollectiveRequest options;
    if (rank == 2) options.format = NumberFormat::kBlocksInt16;
    const std::string own = rank == 2 ? "rank 2's was the sum of 3,000 float32 values in "
                                        "blocks of int16"
                                      : "the sum of 3,000 float32 values in blocks of int32";
    EXPECT_THAT(message(communicators[rank]->all_reduce(tensor, options).wait()),
                AllOf(HasSubstr("a different operation"), HasSubstr("rank 2"), HasSubstr("wire"),
                      HasSubstr(own)));
  });
}

TEST(Disagreement, OnTypeReductionOrSegmentsIsReportedToEveryRank) {
  struct Case {
    const char* what;
    DataType type;
    CollectiveRequest options;
  };
  const Case cases[] = {
      {"type", DataType::kBFloat16, {}},
      {"reduction", DataType::kFloat32, {.reduction = ElementReduction::kAverage}},
      {"segments", DataType::kFloat32, {.segments = {1000, 2000}}},
  };
  for (const Case& c : cases) {
    const TestingCluster cluster(2);
    const Communicators communicators = join_all(cluster);
    in_parallel(2, [&](std::size_t rank) {
      WholeNumbers tensor(rank == 0 ? DataType::kFloat32 : c.type, rank, kLarge);
      const CollectiveRequest options = rank == 0 ? CollectiveRequest{} : c.options;
      EXPECT_THAT(
          message(communicators[rank]->all_reduce(tensor.bytes(), tensor.kind(), options).wait()),
          HasSubstr("a different operation"))
          << c.what;
    });
  }
}

// A sum in blocks first sends exponents and a maximum does not, so the two never meet in a
// fragment.
TEST(Disagreement, OnWhetherThereAreExponentsEndsInBoundedTimeAndShowsBothSides) {
  const TestingCluster cluster(2);
  const Communicators communicators = join_all(cluster);
  in_parallel(2, [&](std::size_t rank) {
    std::vector<float> tensor(kLarge, 1);
    CollectiveRequest options{.timeout = 2s};
    if (rank == 1) options.reduction = ElementReduction::kMax;
    EXPECT_THAT(message(communicators[rank]->all_reduce(tensor, options).wait()),
                HasSubstr(rank == 0 ? "the sum of 3,000 float32 values in blocks of int32"
                                    : "the maximum of 3,000 float32 values"));
  });
}

TEST(Disagreement, OnTheJobsFormatFailsTheJoinAtEveryRank) {
  const TestingCluster cluster(2);
  std::vector<CommunicatorOptions> options = all_options(cluster);
  options[1].number_format = NumberFormat::kExact;
  for (auto& o : options) o.join_timeout = 2s;
  const auto results = join(options);
  std::size_t refused = 0;
  for (const auto& result : results) {
    ASSERT_FALSE(result.ok());
    if (result.error().message.find("was refused: it uses") == std::string::npos) continue;
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("exact sums (exact=1)"), HasSubstr("blocks of int32 (wire=int32)"),
                      HasSubstr("ATP_EXACT")));
    ++refused;
  }
  EXPECT_EQ(refused, 2U) << "the other one waits until its time-out and reports the reason then";
}

}  // namespace
}  // namespace atp::testing
