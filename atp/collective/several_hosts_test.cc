#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "atp/collective/base/hosts.h"
#include "atp/collective/base/number_text.h"
#include "atp/collective/shm/rendezvous.h"
#include "atp/collective/testing/cluster.h"
#include "atp/collective/testing/tasks.h"

// Jobs with several hosts, all simulated on this one: each has shared memory of its own.

namespace atp::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::uint64_t counter(const Communicator& communicator, const std::string& name) {
  for (const auto& [found, value] : communicator.counters()) {
    if (found == name) return value;
  }
  return 0;
}

class SeveralHostsOf : public ::testing::TestWithParam<std::tuple<NumberFormat, HostOf>> {};

TEST_P(SeveralHostsOf, GiveTheSameBitsAsRanksThatSendForThemselves) {
  const auto [format, host_of] = GetParam();
  const std::size_t ranks = host_of.size();
  const TestingCluster cluster(ranks);
  std::vector<CommunicatorOptions> of_ranks = all_options(cluster);
  std::vector<CommunicatorOptions> of_hosts = options_on(cluster, host_of);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (auto* options : {&of_ranks[rank], &of_hosts[rank]}) {
      options->number_format = format;
      options->digest = true;
    }
  }
  const Communicators network = join_all(of_ranks);
  const Communicators hosts = join_all(of_hosts);
  std::vector<Task> tasks = tasks_of(format, ranks);
  if (format == NumberFormat::kBlocks) {
    for (Task task : tasks_of(NumberFormat::kExact, ranks)) {
      if (task.type == DataType::kInt32 || !is_sum(task.options.reduction)) continue;
      if (task.count > 50'000) continue;
      task.options.format = NumberFormat::kExact;
      tasks.push_back(task);
    }
  }
  in_parallel(ranks, [&](std::size_t rank) {
    bool here = false;
    for (Task task : tasks) {
      const std::vector<std::byte> expected = result_of(*network[rank], rank, task);
      task.options.here = (here = !here);
      ASSERT_TRUE(result_of(*hosts[rank], rank, task) == expected) << text_of(task);
    }
    EXPECT_EQ(hosts[rank]->digest(), network[rank]->digest());
    EXPECT_GT(counter(*hosts[rank], "memory_pieces"), 0U);
  });
  shut_down(network);
  shut_down(hosts);
}

std::string name_of_case(const ::testing::TestParamInfo<SeveralHostsOf::ParamType>& info) {
  const auto& [format, host_of] = info.param;
  std::string name = format == NumberFormat::kBlocks ? "BlocksOn" : "Int16On";
  for (const std::size_t host : host_of) name += std::to_string(host);
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Of, SeveralHostsOf,
    ::testing::Combine(::testing::Values(NumberFormat::kBlocks, NumberFormat::kBlocksInt16),
                       ::testing::Values(HostOf{0, 0, 1, 1}, HostOf{0, 1, 0, 1, 2, 0})),
    name_of_case);

TEST(HostsOfAJob, AreNumberedByTheirLowestRanks) {
  EXPECT_TRUE(Hosts::check({}, 4).ok());
  EXPECT_TRUE(Hosts::check({0, 1, 0, 2, 1}, 5).ok());
  EXPECT_THAT(message(Hosts::check({0, 0}, 3)),
              HasSubstr("found the hosts of 2 ranks, expected 3"));
  EXPECT_THAT(message(Hosts::check({0, 2, 1}, 3)),
              AllOf(HasSubstr("rank 1 is on host 2"), HasSubstr("no rank below it is on host 1")));
  EXPECT_THAT(message(Hosts::check({1, 0}, 2)), HasSubstr("rank 0 is on host 1"));
  const Hosts hosts({0, 1, 0, 2, 1});
  EXPECT_EQ(hosts.count(), 3U);
  EXPECT_EQ(hosts.leaders(), (std::vector<Rank>{0, 1, 3}));
  EXPECT_EQ(hosts.ranks_on(1), (std::vector<Rank>{1, 4}));
}

TEST(HostsOfAJob, SumFirstOnlyIfThatSavesTrafficAndKeepsTheBits) {
  struct Case {
    HostOf host_of;
    NumberFormat format;
    bool expected;
  };
  const Case cases[] = {
      {{}, NumberFormat::kBlocks, false},
      {{0, 0, 0}, NumberFormat::kBlocks, false},
      {{0, 1, 2}, NumberFormat::kBlocks, false},
      {{0, 1, 1}, NumberFormat::kBlocks, true},
      {{0, 1, 1}, NumberFormat::kBlocksInt16, true},
      {{0, 1, 1}, NumberFormat::kExact, false},
      {{0, 1, 1}, NumberFormat::kFixed, false},
  };
  for (const Case& c : cases) {
    CommunicatorOptions options;
    options.host_of = c.host_of;
    options.number_format = c.format;
    EXPECT_EQ(sums_on_hosts(options), c.expected);
  }
}

TEST(SeveralHosts, AreOneWorkerEachToTheNetwork) {
  constexpr std::size_t kValues = 350 * 256;
  const TestingCluster cluster(6);
  const Communicators hosts = join_all(options_on(cluster, {0, 0, 0, 0, 1, 1}));
  in_parallel(6, [&](std::size_t rank) {
    std::vector<float> tensor = tensor_of(rank, 0, kValues);
    ASSERT_EQ(message(hosts[rank]->all_reduce(tensor).wait()), "");
    EXPECT_EQ(tensor, sum_of(6, 0, kValues));
  });
  for (std::size_t rank = 0; rank < 6; ++rank) {
    const bool leads = rank == 0 || rank == 4;
    // Two pieces of 94 fragments and one of 69, a fragment of exponents for each, and one for the
    // leaders' agreement. If all six ranks sent for themselves, each would send 257.
    EXPECT_EQ(counter(*hosts[rank], "gradients_sent"), leads ? 94U + 94 + 69 + 3 + 1 : 0U) << rank;
  }
  shut_down(hosts);
}

TEST(SeveralHosts, CarryOutManyOperationsInFlightOverTwoServers) {
  const HostOf host_of = {0, 0, 1, 1, 1};
  const TestingCluster one(5);
  const TestingCluster other(5);
  std::vector<CommunicatorOptions> options = options_on(one, host_of);
  for (auto& each : options) {
    each.more_routes = {{other.server().endpoint()}};
    each.digest_every = 7;
  }
  const Communicators hosts = join_all(options);
  in_parallel(5, [&](std::size_t rank) {
    std::vector<std::vector<float>> tensors;
    for (std::size_t i = 0; i < 60; ++i) tensors.push_back(tensor_of(rank, i, 2999 * i));
    std::vector<std::size_t> ended;
    std::mutex mutex;
    std::vector<Handle> handles;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      CollectiveRequest each{.here = i % 9 == rank};
      each.on_done = [&, i](const Status&) {
        const std::lock_guard lock(mutex);
        ended.push_back(i);
      };
      handles.push_back(hosts[rank]->all_reduce(tensors[i], each));
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(message(handles[i].wait()), "");
      EXPECT_EQ(tensors[i], sum_of(5, i, 2999 * i)) << i;
    }
    EXPECT_TRUE(std::is_sorted(ended.begin(), ended.end()));
  });
  shut_down(hosts);
}

// The errors of the ranks of two hosts with two ranks each, which repeat `call` until it fails.
using Call = std::function<Status(Communicator&, std::size_t rank)>;
std::vector<std::string> errors_of(const std::vector<CommunicatorOptions>& options,
                                   const Call& call) {
  const Communicators hosts = join_all(options);
  std::vector<std::string> errors(options.size());
  in_parallel(options.size(), [&](std::size_t rank) {
    while (errors[rank].empty()) errors[rank] = message(call(*hosts[rank], rank));
  });
  return errors;
}

TEST(SeveralHosts, AreToldWhichRankCallsAnotherOperation) {
  struct Case {
    std::size_t from;  // this rank and those after it
    std::size_t count;
    CollectiveRequest options;
  };
  const Case cases[] = {
      {2, 3001, {}},
      {2, 100'000, {}},
      {2, 3000, {.reduction = ElementReduction::kMax}},
      {2, 3000, {.reduction = ElementReduction::kAverage}},
      {2, 3000, {.format = NumberFormat::kBlocksInt16}},
      {2, 3000, {.segments = {1000, 2000}}},
      {2, 3000, {.tag = 7}},
      {3, 3001, {}},
      {3, 3000, {.tag = 7}},
  };
  const TestingCluster cluster(4);
  std::uint32_t job = 10;
  for (const Case& c : cases) {
    std::vector<CommunicatorOptions> options = options_on(cluster, {0, 0, 1, 1});
    for (auto& each : options) each.job.job += job;
    ++job;
    for (auto& each : options) each.operation_timeout = seconds(2);
    const auto errors = errors_of(options, [&](Communicator& communicator, std::size_t rank) {
      std::vector<float> tensor(rank >= c.from ? c.count : 3000, 1);
      return communicator.all_reduce(tensor, rank >= c.from ? c.options : CollectiveRequest{})
          .wait();
    });
    // Operations in different formats never meet; then each rank reports its own.
    const bool meets = c.options.reduction != ElementReduction::kMax;
    for (std::size_t rank = 0; rank < errors.size(); ++rank) {
      const bool is_there = rank >= c.from;
      EXPECT_THAT(errors[rank], HasSubstr(meets ? "a different operation" : "has not contributed"));

      EXPECT_THAT(errors[rank], HasSubstr(c.from == 3 ? "rank 3" : "rank 2")) << rank;
      EXPECT_THAT(errors[rank], HasSubstr(meets ? "" : is_there ? "maximum of" : "sum of")) << rank;
    }
  }
}

TEST(SeveralHosts, NameARankThatHasNotCalledAtTheDeadline) {
  const TestingCluster cluster(4);
  std::vector<CommunicatorOptions> options = options_on(cluster, {0, 0, 1, 1});
  for (auto& each : options) each.operation_timeout = seconds(2);
  const Communicators hosts = join_all(options);
  std::vector<std::string> errors(4);
  in_parallel(3, [&](std::size_t rank) {
    std::vector<float> tensor(1000, 1);
    errors[rank] = message(hosts[rank]->all_reduce(tensor).wait());
  });
  std::vector<float> tensor(1000, 1);
  errors[3] = message(hosts[3]->all_reduce(tensor).wait());
  for (const std::string& error : errors) {
    EXPECT_THAT(error, AllOf(HasSubstr("not ended within its timeout of 2 s: rank 3 (process "),
                             HasSubstr("has not called all_reduce #0 (1,000 values)")));
  }
}

TEST(SeveralHosts, AreToldOfAnAbortedRank) {
  for (const std::size_t gone : {2U, 3U}) {
    const TestingCluster cluster(4);
    const Communicators hosts = join_all(options_on(cluster, {0, 0, 1, 1}));
    in_parallel(4, [&](std::size_t rank) {
      std::vector<float> tensor(100'000, 1);
      EXPECT_EQ(message(hosts[rank]->all_reduce(tensor).wait()), "");
      if (rank == gone) return hosts[rank]->abort("enough of this");
      const std::string error =
          message(hosts[rank]->all_reduce(tensor, {.here = rank == 0}).wait());
      EXPECT_THAT(error, HasSubstr("rank " + std::to_string(gone) + " ("));
      EXPECT_THAT(error, HasSubstr("left the job"));
    });
  }
}

TEST(SeveralHosts, CannotHaveARankWithAServerOfItsOwn) {
  const TestingCluster cluster(3);
  std::vector<CommunicatorOptions> options = options_on(cluster, {0, 0, 1});
  options[0].colocated_server = loopback(5500);
  const auto result = Communicator::connect(options[0]);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("ATP_HIERARCHY"));
}

const HostOf kTwoAndTwo = {0, 0, 1, 1};

// A process with some ranks of a job on two hosts with two ranks each. The thread sanitizer demands
// that it is forked before this process starts the threads of a cluster; it gets the cluster's
// addresses later.
class ForkedRanks {
 public:
  using Body = std::function<int(const std::vector<CommunicatorOptions>&)>;

  // Its exit code is the body's.
  explicit ForkedRanks(const Body& body) {
    EXPECT_EQ(pipe(pipe_.data()), 0);
    pid_ = fork();
    if (pid_ != 0) return;
    close(pipe_[1]);
    Place place;
    const bool is_told = read(pipe_[0], &place, sizeof place) == sizeof place;
    _exit(is_told ? body(options_at(place)) : 2);
  }
  ~ForkedRanks() {
    for (const int end : pipe_) close(end);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  void join(const std::vector<CommunicatorOptions>& options) const {
    const CommunicatorOptions& any = options.front();
    const Place place{any.job, any.route[0], any.route[1], any.operation_timeout};
    EXPECT_EQ(write(pipe_[1], &place, sizeof place), static_cast<ssize_t>(sizeof place));
  }
  std::string name() const { return "(process " + std::to_string(pid_) + ")"; }
  // Waits for its end.
  int exit_code() const {
    siginfo_t end{};
    waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOWAIT);
    return end.si_status;
  }

 private:
  struct Place {
    JobKey job;
    Endpoint switch_node;
    Endpoint server;
    milliseconds operation_timeout{0};
  };
  static std::vector<CommunicatorOptions> options_at(const Place& place) {
    std::vector<CommunicatorOptions> options(kTwoAndTwo.size());
    for (std::size_t rank = 0; rank < options.size(); ++rank) {
      options[rank].job = place.job;
      options[rank].rank = static_cast<Rank>(rank);
      options[rank].world_size = options.size();
      options[rank].host_of = kTwoAndTwo;
      options[rank].route = {place.switch_node, place.server};
      options[rank].operation_timeout = place.operation_timeout;
    }
    return options;
  }

  std::array<int, 2> pipe_{-1, -1};
  pid_t pid_ = -1;
};

// Sums for a while and then gets a signal.
int sum_until(const CommunicatorOptions& options, int signal, milliseconds after) {
  auto communicator = Communicator::connect(options);
  std::vector<float> tensor(300'000, 1);
  static_cast<void>(communicator.value()->all_reduce(tensor).wait());
  std::thread killer([&] {
    std::this_thread::sleep_for(after);
    kill(getpid(), signal);
  });
  while (communicator.value()->all_reduce(tensor).wait().ok()) continue;
  return pause();
}

struct Ends {
  std::string process;                        // of the rank that ended
  std::map<std::size_t, std::string> errors;  // of the others
  std::map<std::size_t, std::string> said;    // by them before that
};

Ends errors_when(std::size_t ending, int signal, milliseconds after) {
  const ForkedRanks process([&](const std::vector<CommunicatorOptions>& options) {
    return sum_until(options[ending], signal, after);
  });
  const TestingCluster cluster(4);
  std::vector<CommunicatorOptions> options = options_on(cluster, kTwoAndTwo);
  // Only a stopped rank is found by the time-out.
  for (auto& each : options) each.operation_timeout = seconds(signal == SIGSTOP ? 2 : 20);
  process.join(options);
  Ends ends{.process = process.name(), .errors = {}, .said = {}};
  std::mutex mutex;
  in_parallel(4, [&](std::size_t rank) {
    if (rank == ending) return;
    CommunicatorOptions own = options[rank];
    own.on_warning = [&](const std::string& text) {
      const std::lock_guard lock(mutex);
      ends.said[rank] += text + "\n";
    };
    const auto communicator = Communicator::connect(own);
    ASSERT_TRUE(communicator.ok()) << communicator.error().message;
    std::vector<float> tensor(300'000, 1);
    std::string error;
    while (error.empty()) {
      error = message(communicator.value()->all_reduce(tensor, {.here = rank == 0}).wait());
    }
    const std::lock_guard lock(mutex);
    ends.errors[rank] = error;
  });
  return ends;
}

TEST(SeveralHosts, NameARankThatIsKilledOnAnyOfThem) {
  for (const int after_ms : {0, 3, 30}) {
    const Ends ends = errors_when(1, SIGKILL, milliseconds(after_ms));
    for (const auto& [rank, error] : ends.errors) {
      EXPECT_THAT(error, HasSubstr("rank 1 " + ends.process + " is lost: its process has ended"));
    }
    EXPECT_THAT(ends.errors.at(2), HasSubstr("rank 0 (127.0.0.1) left the job"));
  }
}

TEST(SeveralHosts, NameALeaderThatIsKilled) {
  const Ends ends = errors_when(2, SIGKILL, milliseconds(5));
  EXPECT_THAT(ends.errors.at(3),
              HasSubstr("rank 2 " + ends.process + " is lost: its process has ended"));
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_THAT(ends.errors.at(rank), HasSubstr("rank 2 (127.0.0.1) lost: no word from it"));
  }
}

TEST(SeveralHosts, NameARankThatIsStoppedOnAnyOfThem) {
  const Ends ends = errors_when(1, SIGSTOP, milliseconds(5));
  for (const auto& [rank, error] : ends.errors) {
    EXPECT_THAT(error, HasSubstr("not ended within its timeout of 2 s: rank 1 " + ends.process +
                                 " is stopped"));
  }
}

TEST(SeveralHosts, NameALeaderThatIsStopped) {
  const Ends ends = errors_when(2, SIGSTOP, milliseconds(5));
  EXPECT_THAT(ends.errors.at(3), HasSubstr("not ended within its timeout of 2 s: rank 2 " +
                                           ends.process + " is stopped"));
  EXPECT_THAT(ends.said.at(3), HasSubstr("waiting for 1 s: rank 2 " + ends.process + " is stopped"))
      << "although it may wait for the network";
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_THAT(ends.errors.at(rank),
                AllOf(HasSubstr("rank 2 (127.0.0.1)"), HasSubstr("has not contributed")));
  }
}

// Runs the ranks of host 1 in a process that cannot have shared memory; the exit code is 0 if all
// is well.
int sum_without_memory(const std::vector<CommunicatorOptions>& options) {
  const rlimit small{.rlim_cur = 4096, .rlim_max = 4096};
  setrlimit(RLIMIT_FSIZE, &small);
  std::array<bool, 2> well{};
  in_parallel(2, [&](std::size_t i) {
    const auto communicator = Communicator::connect(options[2 + i]);
    if (!communicator.ok()) return;
    std::vector<float> tensor = tensor_of(2 + i, 0, 5000);
    well[i] = communicator.value()->all_reduce(tensor).wait().ok() &&
              tensor == sum_of(4, 0, 5000) && communicator.value()->shutdown().ok();
  });
  return well[0] && well[1] ? 0 : 1;
}

TEST(SeveralHosts, AllTakeTheNetworkIfOneHasNoSharedMemory) {
  const ForkedRanks host_1(sum_without_memory);
  const TestingCluster cluster(4);
  std::vector<CommunicatorOptions> options = options_on(cluster, kTwoAndTwo);
  host_1.join(options);
  options.resize(2);
  for (auto& each : options) {
    each.on_warning = [](const std::string& text) {
      ADD_FAILURE() << "nothing is wrong: " << text;
    };
  }
  const Communicators hosts = join_all(options);
  in_parallel(2, [&](std::size_t rank) {
    std::vector<float> tensor = tensor_of(rank, 0, 5000);
    EXPECT_EQ(message(hosts[rank]->all_reduce(tensor).wait()), "");
    EXPECT_EQ(tensor, sum_of(4, 0, 5000));
    EXPECT_EQ(counter(*hosts[rank], "memory_pieces"), 0U);
    EXPECT_GT(counter(*hosts[rank], "gradients_sent"), 0U);
  });
  shut_down(hosts);
  EXPECT_EQ(host_1.exit_code(), 0);
}

}  // namespace
}  // namespace atp::testing
