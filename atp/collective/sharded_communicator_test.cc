#include <gmock/gmock.h>

#include <atomic>
#include <string>
#include <vector>

#include "atp/collective/communicator.h"
#include "atp/collective/testing_cluster.h"
#include "atp/collective/testing_tensors.h"

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
  Communicators join_all() const {
    std::vector<CommunicatorOptions> all;
    for (std::size_t rank = 0; rank < kRanks; ++rank) all.push_back(options(rank));
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
    AllReduceOptions with_callback;
    with_callback.on_done = [&](const Status& status) {
      EXPECT_TRUE(status.ok());
      ++called;
    };
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

TEST_F(ShardedCluster, AServerThatIsGoneFailsTheOperationAndAllLaterOnes) {
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

}  // namespace
}  // namespace atp::testing
