#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "atp/collective/communicator.h"
#include "atp/collective/testing/cluster.h"
#include "atp/collective/testing/tensors.h"

// A communicator whose job has several servers.

namespace atp::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kRanks = 4;

// Three servers, two of them behind the switch.
class ShardedCluster : public ::testing::Test {
 protected:
  ShardedCluster() : cluster_(kRanks), second_(kRanks), third_(kRanks) {}

  CommunicatorOptions options(std::size_t rank) const {
    CommunicatorOptions options = cluster_.options(rank);
    options.more_routes = {{cluster_.switch_node().endpoint(), second_.server().endpoint()},
                           {third_.server().endpoint()}};
    return options;
  }
  std::vector<CommunicatorOptions> all_options() const {
    std::vector<CommunicatorOptions> all;
    all.reserve(kRanks);
    for (std::size_t rank = 0; rank < kRanks; ++rank) all.push_back(options(rank));
    return all;
  }
  Communicators join_all() const { return join_all(all_options()); }
  static Communicators join_all(const std::vector<CommunicatorOptions>& all) {
    Communicators communicators;
    for (auto& result : join(all)) {
      EXPECT_TRUE(result.ok()) << result.error().message;
      communicators.push_back(std::move(result).value());
    }
    return communicators;
  }

  TestingCluster cluster_;
  TestingCluster second_;
  TestingCluster third_;
};

TEST_F(ShardedCluster, SpreadsTensorsOverAllServers) {
  const Communicators communicators = join_all();
  const std::vector<std::size_t> sizes{10, 300'000, 0, 70'000, 1, 200'000};
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<std::vector<float>> tensors;
    std::vector<Handle> handles;
    std::atomic<std::size_t> called{0};
    CollectiveRequest with_callback;
    with_callback.on_done = [&](const Status& status) {
      EXPECT_TRUE(status.ok());
      ++called;
    };
    tensors.reserve(sizes.size());
    handles.reserve(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) tensors.push_back(tensor_of(rank, i, sizes[i]));
    for (auto& tensor : tensors) {
      handles.push_back(communicators[rank]->all_reduce(tensor, with_callback));
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(message(handles[i].wait()), "");
      EXPECT_TRUE(handles[i].done());
      EXPECT_EQ(tensors[i], sum_of(kRanks, i, sizes[i]));
    }
    EXPECT_EQ(called, sizes.size());
  });
  in_parallel(kRanks,
              [&](std::size_t rank) { EXPECT_EQ(message(communicators[rank]->shutdown()), ""); });
  for (const TestingCluster* each : {&cluster_, &second_, &third_}) {
    EXPECT_GT(each->server().node().counters()[ServerCounter::kFragmentsCompleted], 100U);
  }
  EXPECT_GT(second_.server().node().counters()[ServerCounter::kFragmentsCompletedByOnePacket], 100U)
      << "through the first cluster's switch";
}

TEST_F(ShardedCluster, ALostServerFailsTheOperationAndAllLaterOnes) {
  const Communicators communicators = join_all();
  const std::string gone = to_string(third_.server().endpoint());
  third_.stop_server();
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<float> large(300'000, 1);
    std::vector<float> small(10, 1);
    EXPECT_THAT(message(communicators[rank]->all_reduce(large).wait()),
                AllOf(HasSubstr("all_reduce #0 (300,000 values)"), HasSubstr(gone)));
    EXPECT_THAT(message(communicators[rank]->all_reduce(small).wait()),
                AllOf(HasSubstr("all_reduce #1 (10 values)"), HasSubstr(gone)));
  });
}

TEST_F(ShardedCluster, ALostServerFailsOperationsThatWaitForARankAtAnotherServer) {
  std::vector<CommunicatorOptions> options = all_options();
  for (CommunicatorOptions& each : options) each.operation_timeout = std::chrono::minutes(2);
  const auto begin = std::chrono::steady_clock::now();
  const Communicators communicators = join_all(options);
  const std::string gone = to_string(third_.server().endpoint());
  third_.stop_server();
  // Rank 1 has joined but calls nothing.
  std::vector<float> large(300'000, 1);
  std::vector<float> small(10, 1);
  Handle of_all = communicators[0]->all_reduce(large);
  Handle of_the_first = communicators[0]->all_reduce(small);
  EXPECT_THAT(message(of_all.wait()), HasSubstr(gone));
  EXPECT_THAT(message(of_the_first.wait()), HasSubstr(gone));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1))
      << "it must not take the time-out";
}

// Callbacks of two lanes that wait for each other's thread would deadlock.
TEST_F(ShardedCluster, EveryCallbackMayAbortWhileTheProgramAborts) {
  const Communicators communicators = join_all();
  std::vector<std::vector<float>> tensors(9, std::vector<float>(50'000));
  std::atomic<std::size_t> called{0};
  CollectiveRequest options;
  options.on_done = [&](const Status& status) {
    EXPECT_FALSE(status.ok()) << "no other rank takes part";
    communicators[0]->abort("a callback aborts");
    ++called;
  };
  std::vector<Handle> handles;
  handles.reserve(tensors.size());
  for (auto& tensor : tensors) handles.push_back(communicators[0]->all_reduce(tensor, options));
  communicators[0]->abort("the program aborts");
  for (Handle& handle : handles) EXPECT_FALSE(handle.wait().ok());
  EXPECT_EQ(called, tensors.size());
}

TEST_F(ShardedCluster, ShutdownWaitsForOperationsThatCallbacksSubmitToAnyServer) {
  const Communicators communicators = join_all();
  static constexpr std::size_t kChain = 12;
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<std::vector<float>> tensors;
    tensors.reserve(kChain);
    for (std::size_t i = 0; i < kChain; ++i) tensors.push_back(tensor_of(rank, i, 1000 + i));
    std::function<void(std::size_t)> submit = [&](std::size_t i) {
      CollectiveRequest options;
      options.on_done = [&submit, i](const Status& status) {
        EXPECT_EQ(message(status), "");
        if (i + 1 < kChain) submit(i + 1);
      };
      communicators[rank]->all_reduce(tensors[i], options);
    };
    submit(0);
    EXPECT_EQ(message(communicators[rank]->shutdown()), "");
    for (std::size_t i = 0; i < kChain; ++i) EXPECT_EQ(tensors[i], sum_of(kRanks, i, 1000 + i));
  });
}

}  // namespace
}  // namespace atp::testing
