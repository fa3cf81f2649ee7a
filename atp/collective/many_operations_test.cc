#include <gtest/gtest.h>

#include <chrono>

#include "atp/collective/testing/cluster.h"
#include "atp/collective/testing/tensors.h"

// More operations queued at once than the worker has places for: the rest wait outside it.

namespace atp::testing {
namespace {

constexpr std::size_t kRanks = 2;
constexpr std::size_t kOperations = 20'000;
constexpr std::size_t kLengths[] = {10, 700, 1, 30};

TEST(ManyOperations, AreAllSummedThoughOneRankComesLate) {
  const TestingCluster cluster(kRanks);
  std::vector<CommunicatorOptions> options;
  options.reserve(kRanks);
  for (std::size_t rank = 0; rank < kRanks; ++rank) options.push_back(cluster.options(rank));
  auto joined = join(options);
  in_parallel(kRanks, [&](std::size_t rank) {
    ASSERT_TRUE(joined[rank].ok()) << joined[rank].error().message;
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    std::vector<std::vector<float>> tensors;
    tensors.reserve(kOperations);
    for (std::size_t i = 0; i < kOperations; ++i) {
      tensors.push_back(tensor_of(rank, i % 31, kLengths[i % std::size(kLengths)]));
    }
    std::vector<Handle> handles;
    handles.reserve(kOperations);
    for (auto& tensor : tensors) handles.push_back(joined[rank].value()->all_reduce(tensor));
    for (std::size_t i = 0; i < kOperations; ++i) {
      ASSERT_EQ(message(handles[i].wait()), "");
      ASSERT_EQ(tensors[i], sum_of(kRanks, i % 31, tensors[i].size())) << "operation " << i;
    }
    EXPECT_EQ(message(joined[rank].value()->shutdown()), "");
  });
}

}  // namespace
}  // namespace atp::testing
