#include "atp/collective/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <future>
#include <limits>
#include <mutex>
#include <optional>

#include "atp/collective/testing/cluster.h"
#include "atp/collective/testing/tensors.h"

// Several ranks in this process sum over loopback, through a real switch and a real server.

namespace atp::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::size_t kRanks = 4;

// One all_reduce on every rank; every result must be the exact sum.
void expect_exact_sum(const Communicators& communicators, std::size_t operation,
                      std::size_t count) {
  const std::vector<float> expected = sum_of(communicators.size(), operation, count);
  in_parallel(communicators.size(), [&](std::size_t rank) {
    std::vector<float> tensor = tensor_of(rank, operation, count);
    const Status status = communicators[rank]->all_reduce(tensor).wait();
    EXPECT_EQ(message(status), "");
    EXPECT_EQ(tensor, expected);
  });
}

TEST(Communicator, SumsTensorsOfAnyLengthExactly) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  EXPECT_EQ(communicators[0]->values_per_fragment(), 350U);
  std::size_t operation = 0;
  for (const std::size_t count : {0U, 1U, 349U, 350U, 351U, 1000000U, 0U, 2U}) {
    expect_exact_sum(communicators, operation++, count);
  }
  shut_down(communicators);
}

TEST(Communicator, KeepsSeveralOperationsInFlight) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  constexpr std::size_t kOperations = 40;
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<std::vector<float>> tensors;
    std::vector<Handle> handles;
    tensors.reserve(kOperations);
    handles.reserve(kOperations);
    for (std::size_t n = 0; n < kOperations; ++n) tensors.push_back(tensor_of(rank, n, 777 * n));
    for (auto& tensor : tensors) handles.push_back(communicators[rank]->all_reduce(tensor));
    for (std::size_t n = 0; n < kOperations; ++n) {
      EXPECT_EQ(message(handles[n].wait()), "");
      EXPECT_TRUE(handles[n].done());
      EXPECT_EQ(tensors[n], sum_of(kRanks, n, 777 * n));
    }
  });
  shut_down(communicators);
}

TEST(Communicator, AveragesWithOneRounding) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<float> tensor = tensor_of(rank, 0, 1000);
    EXPECT_EQ(message(communicators[rank]
                          ->all_reduce(tensor, {.reduction = ElementReduction::kAverage})
                          .wait()),
              "");
    const std::vector<float> sum = sum_of(kRanks, 0, 1000);
    for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(tensor[i], sum[i] / kRanks);
  });
  shut_down(communicators);
}

TEST(Communicator, CarriesNanInfAndHugeValuesToEveryRank) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<float> tensor(2000, 1);
    tensor[3] = rank == 2 ? std::numeric_limits<float>::quiet_NaN() : 1;
    tensor[500] = rank == 1 ? kInf : 1;
    tensor[501] = rank == 1 ? kInf : -kInf;
    tensor[1999] = 0x1p100F;
    EXPECT_EQ(message(communicators[rank]->all_reduce(tensor).wait()), "");
    EXPECT_TRUE(std::isnan(tensor[3]));
    EXPECT_EQ(tensor[500], kInf);
    EXPECT_TRUE(std::isnan(tensor[501]));
    EXPECT_EQ(tensor[1999], 0x1p102F);
    for (const std::size_t i : {0U, 499U, 502U, 1000U}) EXPECT_EQ(tensor[i], 4.0F);
  });
  shut_down(communicators);
}

TEST(Communicator, CallsBackOnceBeforeWaitReturns) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  std::atomic<int> calls{0};
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<float> tensor(1000);
    std::atomic<bool> called{false};
    CollectiveRequest options;
    options.on_done = [&](const Status& status) {
      EXPECT_TRUE(status.ok());
      called = true;
      ++calls;
    };
    Handle handle = communicators[rank]->all_reduce(tensor, options);
    EXPECT_TRUE(handle.wait().ok());
    EXPECT_TRUE(called);
  });
  shut_down(communicators);
  EXPECT_EQ(calls, kRanks);
}

TEST(Communicator, ACallbackMaySubmitTheNextOperation) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<float> first = tensor_of(rank, 0, 500);
    std::vector<float> second = tensor_of(rank, 1, 500);
    std::promise<Handle> next;
    CollectiveRequest options;
    options.on_done = [&](const Status&) {
      next.set_value(communicators[rank]->all_reduce(second));
    };
    communicators[rank]->all_reduce(first, options);
    EXPECT_EQ(message(next.get_future().get().wait()), "");
    EXPECT_EQ(second, sum_of(kRanks, 1, 500));
  });
  shut_down(communicators);
}

TEST(Communicator, NamesRanksThatSubmitAnotherSize) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<float> tensor(rank < 2 ? 1000 : 2000);
    EXPECT_THAT(message(communicators[rank]->all_reduce(tensor).wait()),
                AllOf(HasSubstr("all_reduce #0 ("), HasSubstr("ranks 0 and 1"),
                      HasSubstr("ranks 2 and 3"), HasSubstr("a different operation"),
                      HasSubstr("in the same order, with the same sizes")));
  });
}

TEST(Communicator, FailsPendingAndLaterOperationsWithTheFirstCause) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  const auto cause = HasSubstr("a different operation");
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<float> tensor(rank == 3 ? 10 : 20);
    std::vector<float> other(20);
    Handle first = communicators[rank]->all_reduce(tensor);
    if (rank != 3) {
      Handle second = communicators[rank]->all_reduce(other);
      EXPECT_THAT(message(second.wait()), AllOf(HasSubstr("all_reduce #1 (20 values)"), cause));
    }
    EXPECT_THAT(message(first.wait()), cause);
    EXPECT_THAT(message(communicators[rank]->all_reduce(other).wait()), cause);
    EXPECT_EQ(communicators[rank]->failure_kind(), FailureKind::kBroken);
  });
  // Wait until all have been told: a late rank would take one that has left for the first cause.
  in_parallel(kRanks, [&](std::size_t rank) {
    EXPECT_THAT(message(communicators[rank]->shutdown()), cause);
  });
}

TEST(Communicator, NamesRanksThatDoNotJoin) {
  const TestingCluster cluster(kRanks);
  std::vector<CommunicatorOptions> options = all_options(cluster);
  options.resize(2);
  for (auto& o : options) o.join_timeout = 3s;
  for (const auto& result : join(options)) {
    ASSERT_FALSE(result.ok());
    EXPECT_THAT(result.error().message,
                HasSubstr("ranks 2 and 3 have not joined within 3 s; the job has 4 ranks"));
  }
}

TEST(Communicator, NamesTheServerThatDoesNotAnswer) {
  TestingCluster cluster(kRanks);
  CommunicatorOptions options = cluster.options(0);
  options.join_timeout = 500ms;
  cluster.stop_server();
  const auto result = Communicator::connect(options);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(
      result.error().message,
      AllOf(HasSubstr("rank 0 cannot join"), HasSubstr("server " + to_string(options.route.back())),
            HasSubstr("refused"), HasSubstr("is `atp server` running there?")));
}

TEST(Communicator, RunsWithoutASwitchAtTheAddress) {
  TestingCluster cluster(kRanks);
  std::mutex mutex;
  std::vector<std::string> warnings;
  std::vector<CommunicatorOptions> options = all_options(cluster);
  for (auto& o : options) {
    o.on_warning = [&](const std::string& text) {
      const std::lock_guard lock(mutex);
      warnings.push_back(text);
    };
  }
  cluster.stop_switch();
  const Communicators communicators = join_all(options);
  expect_exact_sum(communicators, 0, 10000);
  shut_down(communicators);
  EXPECT_THAT(warnings, Contains(AllOf(HasSubstr("switch " + to_string(options[0].route[0])),
                                       HasSubstr("did not answer"))));
}

TEST(Communicator, NamesTheRanksThatDisagreeWithARefusedOne) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  CommunicatorOptions options = cluster.options(4);
  options.world_size = 5;
  const auto fifth = Communicator::connect(options);
  ASSERT_FALSE(fifth.ok());
  EXPECT_THAT(fifth.error().message,
              HasSubstr("rank 4 was refused: it says the job has 5 ranks, ranks 0 to 3 say 4; "
                        "start all ranks with the same world size"));
  expect_exact_sum(communicators, 0, 100);
  shut_down(communicators);
}

TEST(Communicator, RefusesATwin) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  const auto twin = Communicator::connect(cluster.options(2));
  ASSERT_FALSE(twin.ok());
  EXPECT_THAT(twin.error().message, HasSubstr("rank 2 is taken by 127.0.0.1:"));
  expect_exact_sum(communicators, 0, 1000);
  shut_down(communicators);
}

TEST(Communicator, RefusesAFragmentThatIsTooLargeForThePath) {
  const TestingCluster cluster(kRanks);
  CommunicatorOptions options = cluster.options(0);
  options.values_per_fragment = 3000;
  const auto result = Communicator::connect(options);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message,
              AllOf(HasSubstr("asked for 3,000 values per fragment (12,096-byte datagrams)"),
                    HasSubstr("carries at most 2,226 (MTU 6553")));
}

TEST(Communicator, RefusesOptionsThatMakeNoSense) {
  const TestingCluster cluster(kRanks);
  CommunicatorOptions rank = cluster.options(4);
  EXPECT_THAT(Communicator::connect(rank).error().message, HasSubstr("rank 4 is not one of"));
  CommunicatorOptions route = cluster.options(0);
  route.route.clear();
  EXPECT_THAT(Communicator::connect(route).error().message,
              HasSubstr("expected a route of at most 7 switches"));
}

TEST(Communicator, TimesOutAndNamesTheRankThatDoesNotCall) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  in_parallel(kRanks - 1, [&](std::size_t rank) {
    std::vector<float> tensor(1000);
    EXPECT_EQ(message(communicators[rank]->all_reduce(tensor, {.timeout = 2500ms}).wait()),
              "all_reduce #0 (1,000 values): not ended within its timeout of 2.5 s: rank 3 "
              "(127.0.0.1) has not "
              "contributed; rank " +
                  std::to_string(rank) + " waits for the exact sum of 1,000 float32 values");
    EXPECT_EQ(communicators[rank]->failure_kind(), FailureKind::kTimeout);
  });
}

TEST(Communicator, NamesTheRankThatLeftTooEarly) {
  const TestingCluster cluster(kRanks);
  Communicators communicators = join_all(cluster);
  in_parallel(kRanks, [&](std::size_t rank) {
    if (rank == 1) {
      communicators[1].reset();
      return;
    }
    std::vector<float> tensor(1000);
    EXPECT_THAT(message(communicators[rank]->all_reduce(tensor).wait()),
                HasSubstr("rank 1 (127.0.0.1) left the job"));
    EXPECT_EQ(communicators[rank]->failure_kind(), FailureKind::kReported) << "by its LEAVE";
  });
}

TEST(Communicator, NamesTheRankThatDied) {
  const TestingCluster cluster(kRanks);
  std::vector<CommunicatorOptions> options = all_options(cluster);
  std::optional<DoomedRank> doomed(std::in_place, options.back());
  options.pop_back();
  const Communicators communicators = join_all(options);
  doomed.reset();
  in_parallel(kRanks - 1, [&](std::size_t rank) {
    std::vector<float> tensor(1000);
    EXPECT_EQ(
        message(communicators[rank]->all_reduce(tensor).wait()),
        "all_reduce #0 (1,000 values): rank 3 (127.0.0.1) lost: no word from it for 5 s (its lease "
        "ended)");
    EXPECT_EQ(communicators[rank]->failure_kind(), FailureKind::kBroken);
  });
}

TEST(Communicator, NamesTheServerThatDied) {
  TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  expect_exact_sum(communicators, 0, 1000);
  const Endpoint server = cluster.server().endpoint();
  cluster.stop_server();
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<float> tensor(1000);
    EXPECT_THAT(
        message(communicators[rank]->all_reduce(tensor).wait()),
        AllOf(HasSubstr("server " + to_string(server) + " does not answer"), HasSubstr("refused")));
    EXPECT_EQ(communicators[rank]->failure_kind(), FailureKind::kBroken);
  });
}

TEST(Communicator, NoticesThatTheServerRestarted) {
  TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  const std::uint16_t port = cluster.server().endpoint().port;
  cluster.stop_server();
  cluster.start_server(port);
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<float> tensor(1000);
    EXPECT_THAT(message(communicators[rank]->all_reduce(tensor).wait()),
                HasSubstr("restarted and forgot the job"));
  });
}

TEST(Communicator, SurvivesALostAndRestartedSwitch) {
  TestingCluster cluster(kRanks);
  std::vector<CommunicatorOptions> options = all_options(cluster);
  for (auto& o : options) o.on_warning = [](const std::string&) {};
  const Communicators communicators = join_all(options);
  const std::uint16_t port = cluster.switch_node().endpoint().port;
  std::size_t operation = 0;
  for (int i = 0; i < 5; ++i) expect_exact_sum(communicators, operation++, 50000);
  cluster.stop_switch();
  for (int i = 0; i < 5; ++i) expect_exact_sum(communicators, operation++, 50000);
  cluster.start_switch(port);
  for (int i = 0; i < 5; ++i) expect_exact_sum(communicators, operation++, 50000);
  shut_down(communicators);
}

TEST(Communicator, FailsOperationsInFlightWhenAborted) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  std::vector<float> tensor(1000);
  Handle handle = communicators[0]->all_reduce(tensor);
  EXPECT_EQ(communicators[0]->failure_kind(), FailureKind::kNone);
  communicators[0]->abort("enough of it");
  communicators[0]->abort("again");
  EXPECT_EQ(message(handle.wait()), "all_reduce #0 (1,000 values): enough of it");
  EXPECT_THAT(message(communicators[0]->all_reduce(tensor).wait()), HasSubstr("enough of it"));
  EXPECT_EQ(communicators[0]->failure_kind(), FailureKind::kNone) << "it has left, not failed";
}

TEST(Communicator, ShutsDownOnceAndRefusesOperationsAfterwards) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  expect_exact_sum(communicators, 0, 1000);
  shut_down(communicators);
  shut_down(communicators);
  std::vector<float> tensor(10);
  EXPECT_THAT(message(communicators[0]->all_reduce(tensor).wait()), HasSubstr("was shut down"));
}

TEST(Communicator, GivesUpAShutdownThatTakesTooLong) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  std::vector<float> tensor(10);
  Handle handle = communicators[0]->all_reduce(tensor);
  EXPECT_THAT(message(communicators[0]->shutdown(300ms)),
              HasSubstr("shut down after 0.3 s with 1 operations in flight"));
  EXPECT_FALSE(handle.wait().ok());
}

TEST(Communicator, MayBeDroppedByItsOwnCallback) {
  const TestingCluster cluster(1);
  auto joined = Communicator::connect(cluster.options(0));
  ASSERT_TRUE(joined.ok()) << joined.error().message;
  std::shared_ptr<Communicator> communicator = std::move(joined).value();
  std::vector<float> tensor(1000);
  std::promise<void> dropped;
  Communicator* const raw = communicator.get();
  CollectiveRequest options;
  options.on_done = [&, held = std::move(communicator)](const Status&) mutable {
    held.reset();
    dropped.set_value();
  };
  Handle handle = raw->all_reduce(tensor, options);
  dropped.get_future().get();
  EXPECT_TRUE(handle.wait().ok());
}

TEST(Communicator, DroppedByACallbackReleasesItsMemoryAndTellsTheOthers) {
  const TestingCluster cluster(2);
  Communicators communicators = join_all(cluster);
  auto large = std::make_unique<std::vector<float>>(8'000'000);
  std::vector<float> small(10);
  std::promise<void> dropped;
  CollectiveRequest options;
  options.on_done = [&](const Status&) {
    communicators[0].reset();
    std::fill(large->begin(), large->end(), NAN);
    large.reset();
    dropped.set_value();
  };
  std::vector<float> small_1(10);
  std::vector<float> large_1(8'000'000);
  Handle of_0 = communicators[0]->all_reduce(*large);
  communicators[0]->all_reduce(small, options);  // overtakes the large one
  Handle of_1 = communicators[1]->all_reduce(large_1);
  communicators[1]->all_reduce(small_1);
  dropped.get_future().get();
  EXPECT_FALSE(of_0.wait().ok());
  EXPECT_THAT(message(of_1.wait()),
              HasSubstr("rank 0 (127.0.0.1) left the job before the operation ended"));
}

TEST(Communicator, AcceptsTheLongestTimeOutThatTheTypeHolds) {
  const TestingCluster cluster(1);
  auto joined = Communicator::connect(cluster.options(0));
  ASSERT_TRUE(joined.ok()) << joined.error().message;
  std::vector<float> tensor(1000);
  joined.value()->all_reduce(tensor);
  EXPECT_EQ(message(joined.value()->shutdown(std::chrono::milliseconds::max())), "");
}

TEST(Communicator, HasNoPartInTheJobAfterAFork) {
  const TestingCluster cluster(kRanks);
  Communicators communicators = join_all(cluster);
  const pid_t child = fork();
  if (child == 0) {
    std::vector<float> tensor(10);
    const std::string text = message(communicators[0]->all_reduce(tensor).wait());
    communicators.clear();
    _exit(text.find("forked") == std::string::npos ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expect_exact_sum(communicators, 0, 1000);
  shut_down(communicators);
}

TEST(Communicator, CountsItsPacketsAndOperations) {
  const TestingCluster cluster(kRanks);
  const Communicators communicators = join_all(cluster);
  expect_exact_sum(communicators, 0, 3500);
  shut_down(communicators);
  const CounterList counters = communicators[0]->counters();
  EXPECT_THAT(counters, Contains(std::pair<std::string, std::uint64_t>("operations_completed", 1)));
}

// As at the end of a program with many groups: unacknowledged, each LEAVE takes half a second.
TEST(Communicator, ManyThatGaveUpLeaveALostServerTogether) {
  constexpr std::size_t kMany = 24;
  TestingCluster cluster(1);
  Communicators communicators;
  for (std::size_t i = 0; i < kMany; ++i) {
    CommunicatorOptions options = cluster.options(0);
    options.job.incarnation = static_cast<std::uint32_t>(i);
    communicators.push_back(Communicator::connect(options).value());
  }
  cluster.stop_server();
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& communicator : communicators) communicator->give_up("the program ends");
  for (const auto& communicator : communicators) communicator->abort("the program ends");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3))
      << "they must not leave one after another";
}

}  // namespace
}  // namespace atp::testing
