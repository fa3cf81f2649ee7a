#include "atp/collective/ring/ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "atp/collective/testing/ring.h"

namespace atp {
namespace {

using testing::bytes_of_vector;
using testing::count_of;
using testing::TestingRing;
using testing::values_of;

struct Case {
  std::size_t ranks;
  std::size_t values;
};

class RingSizes : public ::testing::TestWithParam<Case> {
 protected:
  const std::size_t ranks_ = GetParam().ranks;
  const std::size_t count_ = GetParam().values;
};

std::size_t block_length(std::size_t values, std::size_t ranks, std::size_t block) {
  return values / ranks + (block < values % ranks ? 1 : 0);
}

std::vector<double> all_reduced(std::size_t ranks, std::size_t count) {
  std::vector<std::vector<double>> inputs;
  inputs.reserve(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) inputs.push_back(values_of<double>(rank, count));
  std::vector<double> sums;
  for (std::size_t block = 0; block < ranks; ++block) {
    for (std::size_t i = block_length(count, ranks, block); i > 0; --i) {
      const std::size_t at = sums.size();
      double sum = inputs[(block + 1) % ranks][at];
      for (std::size_t k = 2; k <= ranks; ++k) sum += inputs[(block + k) % ranks][at];
      sums.push_back(sum);
    }
  }
  return sums;
}

// Sums of small whole numbers are exact in float32; tests/ring has sums that are not.
std::vector<float> whole_numbers(std::size_t rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 7 + rank * 13) % 101) - 50;
  }
  return values;
}

std::vector<float> sums_of_whole_numbers(std::size_t ranks, std::size_t count) {
  std::vector<float> sums(count);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::vector<float> values = whole_numbers(rank, count);
    for (std::size_t i = 0; i < count; ++i) sums[i] += values[i];
  }
  return sums;
}

TEST_P(RingSizes, an_all_reduce_gives_every_rank_the_same_sums_in_the_promised_order) {
  const std::vector<double> expected = all_reduced(ranks_, count_);
  std::atomic<std::uint64_t> sent = 0;
  TestingRing(ranks_).run([&](std::size_t rank, Ring& ring) {
    std::vector<double> values = values_of<double>(rank, count_);
    const RingHandle handle =
        ring.submit(all_reduce_request(ElementType::kFloat64, bytes_of_vector(values), ranks_));
    const Status done = handle.wait();
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_EQ(values, expected);
    ASSERT_TRUE(ring.shutdown().ok());
    sent += count_of(ring, "ring_bytes_sent");
  });
  EXPECT_EQ(sent, 2 * (ranks_ - 1) * count_ * sizeof(double));
}

TEST_P(RingSizes, a_reduce_scatter_gives_each_rank_its_block_and_leaves_the_input) {
  const std::vector<float> expected = [&] {
    std::vector<float> sums;
    for (std::size_t block = 0; block < ranks_; ++block) {
      std::vector<std::vector<float>> inputs;
      for (std::size_t k = 1; k <= ranks_; ++k) {
        inputs.push_back(values_of<float>((block + k) % ranks_, count_ * ranks_));
      }
      for (std::size_t i = block * count_; i < (block + 1) * count_; ++i) {
        float sum = inputs[0][i];
        for (std::size_t k = 1; k < ranks_; ++k) sum += inputs[k][i];
        sums.push_back(sum);
      }
    }
    return sums;
  }();
  std::atomic<std::uint64_t> sent = 0;
  TestingRing(ranks_).run([&](std::size_t rank, Ring& ring) {
    std::vector<float> input = values_of<float>(rank, count_ * ranks_);
    std::vector<float> block(count_);
    const Status done =
        ring.submit(reduce_scatter_request(ElementType::kFloat32, bytes_of_vector(input),
                                           bytes_of_vector(block), ranks_))
            .wait();
    ASSERT_TRUE(done.ok()) << done.error().message;
    const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(rank * count_);
    EXPECT_EQ(block, std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(count_)));
    EXPECT_EQ(input, values_of<float>(rank, count_ * ranks_));
    ASSERT_TRUE(ring.shutdown().ok());
    sent += count_of(ring, "ring_bytes_sent");
  });
  EXPECT_EQ(sent, (ranks_ - 1) * ranks_ * count_ * sizeof(float));
}

TEST_P(RingSizes, an_all_gather_gives_all_blocks_to_every_rank) {
  std::vector<std::uint8_t> expected(ranks_ * count_);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] = static_cast<std::uint8_t>(i / count_ + i);
  }
  TestingRing(ranks_).run([&](std::size_t rank, Ring& ring) {
    const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(rank * count_);
    std::vector<std::uint8_t> block(begin, begin + static_cast<std::ptrdiff_t>(count_));
    std::vector<std::uint8_t> all(ranks_ * count_);
    const Status done = ring.submit(all_gather_request(ElementType::kByte, bytes_of_vector(block),
                                                       bytes_of_vector(all), ranks_))
                            .wait();
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_EQ(all, expected);
    ASSERT_TRUE(ring.shutdown().ok());
    EXPECT_EQ(count_of(ring, "ring_bytes_sent"), (ranks_ - 1) * count_);
  });
}

INSTANTIATE_TEST_SUITE_P(of, RingSizes,
                         ::testing::ValuesIn(std::vector<Case>{{1, 5},
                                                               {2, 0},
                                                               {2, 1},
                                                               {2, 7},
                                                               {2, 100'003},
                                                               {3, 0},
                                                               {3, 2},
                                                               {3, 65'536},
                                                               {4, 1},
                                                               {4, 1'000'001},
                                                               {5, 4},
                                                               {5, 70'001},
                                                               {8, 3},
                                                               {8, 50'000},
                                                               {16, 1'000}}),
                         [](const ::testing::TestParamInfo<Case>& test) {
                           return std::to_string(test.param.ranks) + "_ranks_" +
                                  std::to_string(test.param.values) + "_values";
                         });

TEST(Ring, an_average_is_the_sum_divided_once) {
  std::vector<double> expected = all_reduced(3, 1000);
  for (double& value : expected) value /= 3;
  TestingRing(3).run([&](std::size_t rank, Ring& ring) {
    std::vector<double> values = values_of<double>(rank, 1000);
    RingRequest request = all_reduce_request(ElementType::kFloat64, bytes_of_vector(values), 3);
    request.reduction = Reduction::kAverage;
    ASSERT_TRUE(ring.submit(std::move(request)).wait().ok());
    EXPECT_EQ(values, expected);
  });
}

TEST(Ring, many_operations_of_all_kinds_in_flight_end_in_order) {
  constexpr std::size_t kRanks = 3;
  constexpr std::size_t kOperations = 60;
  TestingRing(kRanks).run([&](std::size_t rank, Ring& ring) {
    std::vector<std::vector<float>> inputs(kOperations);
    std::vector<std::vector<float>> outputs(kOperations);
    std::vector<std::size_t> ended;
    std::vector<RingHandle> handles;
    for (std::size_t i = 0; i < kOperations; ++i) {
      const std::size_t count = 1 + i * i * 7;
      RingRequest request;
      if (i % 3 == 0) {
        inputs[i] = whole_numbers(rank, count);
        request = all_reduce_request(ElementType::kFloat32, bytes_of_vector(inputs[i]), kRanks);
      } else if (i % 3 == 1) {
        inputs[i] = values_of<float>(rank, count * kRanks);
        outputs[i].resize(count);
        request = reduce_scatter_request(ElementType::kFloat32, bytes_of_vector(inputs[i]),
                                         bytes_of_vector(outputs[i]), kRanks);
      } else {
        inputs[i] = values_of<float>(rank, count);
        outputs[i].resize(count * kRanks);
        request = all_gather_request(ElementType::kFloat32, bytes_of_vector(inputs[i]),
                                     bytes_of_vector(outputs[i]), kRanks);
      }
      request.on_done = [&ended, i](const Status& status) {
        EXPECT_TRUE(status.ok());
        ended.push_back(i);
      };
      handles.push_back(ring.submit(std::move(request)));
    }
    for (const RingHandle& handle : handles) ASSERT_TRUE(handle.wait().ok());
    for (std::size_t i = 0; i < kOperations; ++i) EXPECT_EQ(ended[i], i);
    for (std::size_t i = 0; i < kOperations; i += 3) {
      EXPECT_EQ(inputs[i], sums_of_whole_numbers(kRanks, inputs[i].size()));
    }
    for (std::size_t i = 2; i < kOperations; i += 3) {
      std::vector<float> expected;
      for (std::size_t r = 0; r < kRanks; ++r) {
        const std::vector<float> block = values_of<float>(r, inputs[i].size());
        expected.insert(expected.end(), block.begin(), block.end());
      }
      EXPECT_EQ(outputs[i], expected);
    }
  });
}

TEST(Ring, blocks_may_have_any_lengths) {
  const std::vector<std::size_t> lengths{5, 0, 9};
  TestingRing(3).run([&](std::size_t rank, Ring& ring) {
    std::vector<double> all(14, -1);
    std::vector<double> own(lengths[rank], static_cast<double>(rank));
    RingRequest request{.collective = RingCollective::kAllGather, .type = ElementType::kFloat64};
    request.inputs = {bytes_of_vector(own)};
    for (std::size_t b = 0, at = 0; b < 3; at += lengths[b++] * 8) {
      request.outputs.push_back(bytes_of_vector(all).subspan(at, lengths[b] * 8));
    }
    ASSERT_TRUE(ring.submit(std::move(request)).wait().ok());
    EXPECT_EQ(all, (std::vector<double>{0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2}));
  });
}

TEST(Ring, an_invalid_request_is_refused_and_the_ring_still_works) {
  TestingRing(2).run([&](std::size_t, Ring& ring) {
    std::vector<float> values(10);
    const Status refused =
        ring.submit(all_reduce_request(ElementType::kFloat32, bytes_of_vector(values), 3)).wait();
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message, ::testing::HasSubstr("expected 2 input and 2 output"));
    EXPECT_TRUE(ring.submit(all_reduce_request(ElementType::kFloat32, bytes_of_vector(values), 2))
                    .wait()
                    .ok());
  });
}

TEST(Ring, a_ring_that_was_shut_down_refuses_operations) {
  for (const std::size_t ranks : {1U, 2U}) {
    TestingRing(ranks).run([&](std::size_t, Ring& ring) {
      std::vector<float> values(10);
      const auto sum = [&] {
        return ring.submit(
            all_reduce_request(ElementType::kFloat32, bytes_of_vector(values), ranks));
      };
      const RingHandle last = sum();
      EXPECT_TRUE(ring.shutdown().ok());
      EXPECT_TRUE(last.wait().ok());
      EXPECT_TRUE(ring.shutdown().ok());
      const Status late = sum().wait();
      ASSERT_FALSE(late.ok()) << ranks;
      EXPECT_EQ(late.error().message, "all_reduce #1 (10 float32): the ring was shut down");
    });
  }
}

TEST(Ring, twenty_thousand_operations_may_be_queued_before_a_late_rank_calls) {
  constexpr std::size_t kOperations = 20'000;
  constexpr std::size_t kLengths[] = {10, 700, 1, 30};
  TestingRing(2).run([&](std::size_t rank, Ring& ring) {
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    std::vector<std::vector<float>> tensors;
    tensors.reserve(kOperations);
    for (std::size_t i = 0; i < kOperations; ++i) {
      tensors.emplace_back(kLengths[i % std::size(kLengths)], static_cast<float>(i % 1000 + rank));
    }
    std::vector<RingHandle> handles;
    handles.reserve(kOperations);
    for (auto& tensor : tensors) {
      handles.push_back(
          ring.submit(all_reduce_request(ElementType::kFloat32, bytes_of_vector(tensor), 2)));
    }
    for (std::size_t i = 0; i < kOperations; ++i) {
      ASSERT_TRUE(handles[i].wait().ok());
      const auto sum = static_cast<float>(2 * (i % 1000) + 1);
      ASSERT_EQ(tensors[i], std::vector<float>(tensors[i].size(), sum)) << "operation " << i;
    }
  });
}

}  // namespace
}  // namespace atp
