#include "atp/collective/shm/shm_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <latch>
#include <limits>
#include <mutex>
#include <vector>

#include "atp/collective/testing/cluster.h"
#include "atp/collective/testing/tasks.h"

// Communicators whose ranks share memory: the same bits as from the network, and the same
// guarantees.

namespace atp::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class HostMemory : public ::testing::TestWithParam<std::tuple<NumberFormat, std::size_t>> {};

TEST_P(HostMemory, GivesTheSameBitsAsTheNetwork) {
  const auto [format, ranks] = GetParam();
  const TestingCluster cluster(ranks);
  std::vector<CommunicatorOptions> through_network = all_options(cluster);
  std::vector<CommunicatorOptions> through_memory = memory_options(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (auto* options : {&through_network[rank], &through_memory[rank]}) {
      options->number_format = format;
      options->digest = true;
    }
  }
  const Communicators network = join_all(through_network);
  const Communicators memory = join_all(through_memory);
  const std::vector<Task> tasks = tasks_of(format, ranks);
  in_parallel(ranks, [&](std::size_t rank) {
    bool here = false;
    for (Task task : tasks) {
      const std::vector<std::byte> expected = result_of(*network[rank], rank, task);
      task.options.here = (here = !here);
      ASSERT_TRUE(result_of(*memory[rank], rank, task) == expected) << text_of(task);
    }
    EXPECT_EQ(memory[rank]->digest(), network[rank]->digest());
    for (const auto& [name, value] : memory[rank]->counters()) {
      EXPECT_TRUE(name != "operations_completed" || value == tasks.size()) << value;
    }
  });
  shut_down(network);
  shut_down(memory);
}

// One rank's share in a reduce-scatter of uneven shares, which do not end at block boundaries.
std::vector<std::byte> share_of(Communicator& communicator, std::size_t rank, const Task& task,
                                std::size_t* begin) {
  const std::size_t ranks = communicator.world_size();
  std::vector<std::byte> values = values_for(task.type, rank, task.count, task.with_specials);
  const std::vector<std::byte> before = values;
  CollectiveRequest request{.call = Collective::kReduceScatter,
                            .kind = kind_of(task.type),
                            .reduction = task.options.reduction,
                            .here = task.options.here};
  const std::size_t block = task.count / ranks * bytes_of(task.type);
  *begin = block * rank;
  ConstBytes left(values);
  for (std::size_t r = 0; r < ranks; ++r) {
    request.inputs.push_back(r + 1 < ranks ? left.first(block) : left);
    left = left.subspan(request.inputs.back().size());
  }
  std::vector<std::byte> share(request.inputs[rank].size());
  request.outputs = {share};
  EXPECT_EQ(message(communicator.submit(std::move(request)).wait()), "");
  EXPECT_TRUE(values == before);
  return share;
}

std::vector<float> floats_of(DataType type, const std::vector<std::byte>& bytes) {
  std::vector<float> floats(bytes.size() / bytes_of(type));
  element::with_float(type, [&](auto of) {
    for (std::size_t i = 0; i < floats.size(); ++i) {
      floats[i] = decltype(of)::load(bytes.data() + bytes_of(type) * i);
    }
  });
  return floats;
}

// All ranks' values, added as float32 in the order of ranks and rounded to the type once.
std::vector<float> sums_in_order(const Task& task, std::size_t ranks) {
  std::vector<float> sums =
      floats_of(task.type, values_for(task.type, 0, task.count, task.with_specials));
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    const std::vector<std::byte> bytes =
        values_for(task.type, rank, task.count, task.with_specials);
    const std::vector<float> values = floats_of(task.type, bytes);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
  }
  std::vector<std::byte> rounded(task.count * bytes_of(task.type));
  const float divisor =
      task.options.reduction == ElementReduction::kAverage ? static_cast<float>(ranks) : 1;
  element::with_float(task.type, [&](auto of) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      decltype(of)::store(rounded.data() + bytes_of(task.type) * i, sums[i] / divisor);
    }
  });
  return floats_of(task.type, rounded);
}

// The bits of an all-reduce, but for sums of floats that need not be exact.
TEST_P(HostMemory, GivesEachRankItsShare) {
  const auto format = std::get<0>(GetParam());
  const auto ranks = std::get<1>(GetParam());
  std::vector<CommunicatorOptions> options = memory_options(ranks);
  for (auto& o : options) o.number_format = format;
  const Communicators memory = join_all(options);
  const std::vector<Task> tasks = tasks_of(format, ranks);
  in_parallel(ranks, [&](std::size_t rank) {
    bool here = false;
    for (Task task : tasks) {
      if (!task.options.segments.empty()) continue;
      // A few tasks of several pieces are enough: exact sums are slow.
      const bool is_long = task.count > 40'000;
      if (is_long && (format == NumberFormat::kExact || task.with_specials)) continue;
      task.options.here = (here = !here);
      std::size_t begin = 0;
      const std::vector<std::byte> share = share_of(*memory[rank], rank, task, &begin);
      if (is_floating(task.type) && is_sum(task.options.reduction) &&
          format != NumberFormat::kExact && ranks > 1) {
        const std::vector<float> sums = sums_in_order(task, ranks);
        const std::vector<float> own = floats_of(task.type, share);
        for (std::size_t i = 0; i < own.size(); ++i) {
          const float sum = sums[begin / bytes_of(task.type) + i];
          ASSERT_TRUE(own[i] == sum || (std::isnan(own[i]) && std::isnan(sum))) << text_of(task);
        }
        continue;
      }
      const std::vector<std::byte> whole = result_of(*memory[rank], rank, task);
      ASSERT_EQ(share.empty() ? 0 : std::memcmp(share.data(), whole.data() + begin, share.size()),
                0)
          << text_of(task) << " of " << ranks;
    }
  });
  shut_down(memory);
}

std::string name_of_case(
    const ::testing::TestParamInfo<std::tuple<NumberFormat, std::size_t>>& info) {
  constexpr const char* kFormats[] = {"Fixed", "Blocks", "Int16", "Exact"};
  const auto [format, ranks] = info.param;
  return std::string(kFormats[static_cast<std::size_t>(format)]) + "With" + std::to_string(ranks) +
         "Ranks";
}

INSTANTIATE_TEST_SUITE_P(Of, HostMemory,
                         ::testing::Combine(::testing::Values(NumberFormat::kBlocks,
                                                              NumberFormat::kBlocksInt16,
                                                              NumberFormat::kExact),
                                            ::testing::Values(1U, 2U, 3U, 8U)),
                         name_of_case);

TEST(ShmTransport, CarriesOutManyOperationsInFlightInOrder) {
  constexpr std::size_t kRanks = 3;
  std::vector<CommunicatorOptions> options = memory_options(kRanks);
  for (auto& o : options) o.digest_every = 7;
  const Communicators communicators = join_all(options);
  in_parallel(kRanks, [&](std::size_t rank) {
    std::vector<std::vector<float>> tensors;
    tensors.reserve(60);
    for (std::size_t i = 0; i < 60; ++i) tensors.push_back(tensor_of(rank, i, 997 * i));
    std::vector<std::size_t> ended;
    std::mutex mutex;
    std::vector<Handle> handles;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      CollectiveRequest each{.here = i % 9 == 8};
      each.on_done = [&, i](const Status&) {
        const std::lock_guard lock(mutex);
        ended.push_back(i);
      };
      handles.push_back(communicators[rank]->all_reduce(tensors[i], each));
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(message(handles[i].wait()), "");
      EXPECT_EQ(tensors[i], sum_of(kRanks, i, 997 * i)) << i;
    }
    EXPECT_TRUE(std::is_sorted(ended.begin(), ended.end()));
  });
  shut_down(communicators);
}

TEST(ShmTransport, CarriesAnOperationOutOnTheCallersThreadIfItWaits) {
  const Communicators communicators = join_all(memory_options(2));
  in_parallel(2, [&](std::size_t rank) {
    std::thread::id told;
    std::vector<float> tensor(1000, 1);
    CollectiveRequest here{.here = true};
    here.on_done = [&](const Status&) { told = std::this_thread::get_id(); };
    const Handle handle = communicators[rank]->all_reduce(tensor, here);
    EXPECT_TRUE(handle.done());
    EXPECT_EQ(told, std::this_thread::get_id());
    EXPECT_EQ(tensor[999], 2);
  });
  shut_down(communicators);
}

TEST(ShmTransport, ServesThreadsThatSumAtTheSameTime) {
  constexpr std::size_t kSums = 300;
  const Communicators communicators = join_all(memory_options(2));
  // The tensors are equal, so it does not matter which thread's sum comes first.
  in_parallel(4, [&](std::size_t thread) {
    for (std::size_t i = 0; i < kSums; ++i) {
      std::vector<float> tensor(500, 3);
      const CollectiveRequest options{.here = i % 2 == thread / 2};
      ASSERT_EQ(message(communicators[thread % 2]->all_reduce(tensor, options).wait()), "");
      ASSERT_EQ(tensor[499], 6);
    }
  });
  shut_down(communicators);
}

TEST(ShmTransport, GathersAndBroadcastsBetweenSumsThatAreCompared) {
  constexpr std::size_t kRanks = 3;
  std::vector<CommunicatorOptions> options = memory_options(kRanks);
  for (auto& o : options) o.digest_every = 2;
  const Communicators communicators = join_all(options);
  in_parallel(kRanks, [&](std::size_t rank) {
    Communicator& own = *communicators[rank];
    std::vector<std::vector<float>> tensors;
    std::vector<std::vector<std::byte>> gathered;
    std::vector<std::vector<std::byte>> blocks;
    std::vector<Handle> handles;
    for (std::size_t i = 0; i < 20; ++i) {
      tensors.push_back(tensor_of(rank, i, 997));
      blocks.emplace_back(5000, static_cast<std::byte>(10 * rank + i));
      gathered.emplace_back(kRanks * 5000);
    }
    for (std::size_t i = 0; i < 20; ++i) {
      handles.push_back(own.all_reduce(tensors[i]));
      CollectiveRequest request{
          .call = Collective::kAllGather, .inputs = {blocks[i]}, .here = i % 3 == 0};
      for (std::size_t r = 0; r < kRanks; ++r) {
        request.outputs.emplace_back(gathered[i].data() + r * 5000, 5000);
      }
      handles.push_back(own.submit(std::move(request)));
      handles.push_back(
          own.submit({.call = Collective::kBroadcast, .root = i % kRanks, .outputs = {blocks[i]}}));
    }
    for (Handle& handle : handles) ASSERT_EQ(message(handle.wait()), "");
    for (std::size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(tensors[i], sum_of(kRanks, i, 997));
      EXPECT_EQ(gathered[i][5000 * kRanks - 1], static_cast<std::byte>(10 * (kRanks - 1) + i));
      EXPECT_EQ(blocks[i][4999], static_cast<std::byte>(10 * (i % kRanks) + i));
    }
  });
  shut_down(communicators);
}

TEST(ShmTransport, SumsBlocksThatLieAnywhere) {
  constexpr std::size_t kRanks = 3;
  const Communicators communicators = join_all(memory_options(kRanks));
  in_parallel(kRanks, [&](std::size_t rank) {
    // In the opposite order, with gaps, and the second is empty.
    std::vector<float> values(30'000);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + rank);
    const std::span<float> all(values);
    const std::span<float> blocks[] = {all.subspan(20'000, 7000), {}, all.subspan(100, 9000)};
    CollectiveRequest request{.call = Collective::kReduceScatter,
                              .kind = ElementKind::kFloat32,
                              .reduction = ElementReduction::kSum};
    for (const auto block : blocks) request.inputs.emplace_back(std::as_bytes(block));
    request.outputs = {std::as_writable_bytes(blocks[rank])};  // its place in the input
    ASSERT_EQ(message(communicators[rank]->submit(std::move(request)).wait()), "");
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool is_own = rank == 0 ? i >= 20'000 && i < 27'000 : rank == 2 && i >= 100 && i < 9100;
      ASSERT_EQ(values[i], static_cast<float>(is_own ? 3 * i + 3 : i + rank)) << i;
    }
  });
  shut_down(communicators);
}

TEST(ShmTransport, NamesTheDefectOfARequest) {
  const Communicators communicators = join_all(memory_options(1));
  std::vector<std::byte> bytes(8);
  const auto error = [&](CollectiveRequest request) {
    return message(communicators[0]->submit(std::move(request)).wait());
  };
  EXPECT_THAT(error({.call = Collective::kBroadcast, .root = 1, .outputs = {bytes}}),
              HasSubstr("there is no rank 1"));
  EXPECT_THAT(error({.call = Collective::kAllGather, .inputs = {bytes}}),
              HasSubstr("expected 1 input and 1 output blocks, found 1 and 0"));
  EXPECT_THAT(
      error({.call = Collective::kAllGather, .inputs = {bytes}, .outputs = {{bytes.data(), 7}}}),
      HasSubstr("8 bytes in the input and 7 in the output"));
  EXPECT_THAT(error({.call = Collective::kAllReduce}), HasSubstr("found 0 and 0"));
  EXPECT_THAT(error({.call = Collective::kBarrier}), HasSubstr("connections between the ranks"));
  shut_down(communicators);
}

TEST(ShmTransport, RefusesOtherCollectivesOverTheNetwork) {
  const TestingCluster cluster(1);
  const Communicators communicators = join_all(all_options(cluster));
  std::vector<std::byte> bytes(8);
  EXPECT_FALSE(communicators[0]->in_host_memory());
  const CollectiveRequest request{.call = Collective::kBroadcast, .outputs = {bytes}};
  EXPECT_THAT(message(communicators[0]->submit(request).wait()),
              HasSubstr("broadcast needs the memory of one host"));
  EXPECT_THAT(message(communicators[0]
                          ->submit({.call = Collective::kAllReduce,
                                    .kind = ElementKind::kInt64,
                                    .reduction = ElementReduction::kSum,
                                    .outputs = {bytes}})
                          .wait()),
              HasSubstr("all_reduce (the sum of int64) needs the memory of one host"));
  shut_down(communicators);
}

TEST(ShmTransport, NamesTheCollectiveThatAnotherRankHasNotCalled) {
  const Communicators communicators = join_all(memory_options(2));
  std::latch told(1);
  in_parallel(2, [&](std::size_t rank) {
    std::vector<std::byte> bytes(80);
    CollectiveRequest request{
        .call = Collective::kBroadcast, .kind = ElementKind::kInt64, .outputs = {bytes}};
    if (rank == 1) {
      told.wait();
      static_cast<void>(communicators[1]->submit(request).wait());
      EXPECT_EQ(communicators[1]->failure_kind(), FailureKind::kReported);
      return;
    }
    request.timeout = seconds(1);
    EXPECT_THAT(message(communicators[0]->submit(request).wait()),
                AllOf(HasSubstr("broadcast #0 (10 values): "), HasSubstr("rank 1 (process "),
                      HasSubstr("has not called broadcast #0 (10 values), of int64 from rank 0")));
    EXPECT_EQ(communicators[0]->failure_kind(), FailureKind::kTimeout);
    told.count_down();
  });
}

TEST(ShmTransport, NamesARankThatCallsAnotherOperation) {
  struct Case {
    std::size_t count;
    CollectiveRequest options;
    const char* said;
  };
  const Case cases[] = {
      {3001, {}, "3,001 values"},
      {100'000, {}, "100,000 values"},
      {3000, {.reduction = ElementReduction::kMax}, "the maximum of 3,000 float32 values"},
      {3000, {.format = NumberFormat::kBlocksInt16}, "in blocks of int16"},
      {3000, {.segments = {1000, 2000}}, "a different operation"},
      {3000, {.tag = 7}, "a different operation"},
  };
  for (const Case& c : cases) {
    const Communicators communicators = join_all(memory_options(3));
    std::vector<std::string> errors(3);
    in_parallel(3, [&](std::size_t rank) {
      std::vector<float> tensor(rank == 1 ? c.count : 3000, 1);
      const CollectiveRequest options = rank == 1 ? c.options : CollectiveRequest{};
      errors[rank] = message(communicators[rank]->all_reduce(tensor, options).wait());
    });
    for (const std::string& error : errors) {
      EXPECT_THAT(error, AllOf(HasSubstr("a different operation"), HasSubstr("rank 1"),
                               HasSubstr(c.said), HasSubstr("in the same order")));
    }
  }
}

TEST(ShmTransport, NamesARankThatHasNotCalledAtTheDeadline) {
  const Communicators communicators = join_all(memory_options(3));
  std::latch others(2);
  in_parallel(3, [&](std::size_t rank) {
    std::vector<float> tensor(1000, 1);
    if (rank == 2) others.wait();
    const CollectiveRequest options{.timeout = seconds(2), .here = rank == 0};
    const std::string error = message(communicators[rank]->all_reduce(tensor, options).wait());
    if (rank != 2) others.count_down();
    EXPECT_THAT(error, AllOf(HasSubstr("not ended within its timeout of 2 s: rank 2 (process "),
                             HasSubstr("has not called all_reduce #0 (1,000 values)")));
  });
}

TEST(ShmTransport, WarnsWhomItWaitsForThoughNothingHasFailed) {
  std::vector<CommunicatorOptions> options = memory_options(2);
  std::vector<std::string> warnings;
  std::latch warned(1);
  options[0].on_warning = [&](const std::string& text) {
    warnings.push_back(text);
    if (warnings.size() == 1) warned.count_down();
  };
  const Communicators communicators = join_all(options);
  in_parallel(2, [&](std::size_t rank) {
    std::vector<float> tensor(1000, 1);
    const auto until = std::chrono::steady_clock::now() + seconds(15);
    while (rank == 1 && !warned.try_wait() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_EQ(message(communicators[rank]->all_reduce(tensor, {.here = true}).wait()), "");
  });
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_THAT(warnings[0], AllOf(HasSubstr("waiting for 1 s: rank 1 (process "),
                                 HasSubstr("has not called all_reduce #0 (1,000 values)")));
  EXPECT_THAT(warnings[1], HasSubstr("rank 1 has resumed: this rank waited for 1"));
  shut_down(communicators);
}

TEST(ShmTransport, TellsAllOthersAboutAnAbortedRank) {
  const Communicators communicators = join_all(memory_options(3));
  in_parallel(3, [&](std::size_t rank) {
    std::vector<float> tensor(1000, 1);
    EXPECT_EQ(message(communicators[rank]->all_reduce(tensor).wait()), "");
    if (rank == 1) {
      communicators[rank]->abort("enough of this");
      EXPECT_THAT(message(communicators[rank]->all_reduce(tensor).wait()),
                  HasSubstr("enough of this"));
      EXPECT_EQ(communicators[rank]->failure_kind(), FailureKind::kNone) << "it has left";
    } else {
      EXPECT_THAT(message(communicators[rank]->all_reduce(tensor, {.here = rank == 0}).wait()),
                  HasSubstr("rank 1 (process "));
      // Whichever of them misses it first tells the other.
      EXPECT_THAT(communicators[rank]->failure_kind(),
                  AnyOf(FailureKind::kBroken, FailureKind::kReported));
    }
  });
}

// However late another rank looks at the result that it shares with the aborting one.
TEST(ShmTransport, KeepsAResultThatWasCompleteBeforeAnAbort) {
  for (int time = 0; time < 100; ++time) {
    const Communicators communicators = join_all(memory_options(2));
    in_parallel(2, [&](std::size_t rank) {
      std::vector<float> first(1000, 1);
      std::vector<float> second(1000, 1);
      if (rank == 0) {
        EXPECT_EQ(message(communicators[0]->all_reduce(first, {.here = true}).wait()), "");
        const Handle pending = communicators[0]->all_reduce(second);
        communicators[0]->abort("enough of this");
      } else {
        EXPECT_EQ(message(communicators[1]->all_reduce(first).wait()), "") << time;
        EXPECT_EQ(first, std::vector<float>(1000, 2));
      }
    });
  }
}

TEST(ShmTransport, EndsAnOperationOnTheCallersThreadWhenAborted) {
  const Communicators communicators = join_all(memory_options(2));
  std::thread aborting([&] {
    std::this_thread::sleep_for(milliseconds(100));
    communicators[0]->abort("no time");
  });
  std::vector<float> tensor(1000, 1);
  EXPECT_THAT(message(communicators[0]->all_reduce(tensor, {.here = true}).wait()),
              HasSubstr("no time"));
  aborting.join();
}

TEST(ShmTransport, WorksWithOneRank) {
  const Communicators communicators = join_all(memory_options(1));
  std::vector<float> tensor(5000, 1e-30F);
  tensor[7] = 1e30F;
  const std::vector<float> before = tensor;
  EXPECT_EQ(message(communicators[0]->all_reduce(tensor, {.here = true}).wait()), "");
  EXPECT_EQ(tensor, before);
  shut_down(communicators);
}

TEST(ShmTransport, RefusesTheFixedScale) {
  std::vector<CommunicatorOptions> options = memory_options(1);
  options[0].number_format = NumberFormat::kFixed;
  const auto result = Communicator::connect(options[0]);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message,
              AllOf(HasSubstr("fixed scale"), HasSubstr("ATP_ROUTE"), HasSubstr("--switch")));
}

}  // namespace
}  // namespace atp::testing
