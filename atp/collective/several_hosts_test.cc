#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "atp/collective/hosts.h"
#include "atp/collective/testing_cluster.h"
#include "atp/collective/testing_tasks.h"

// Jobs of several hosts, of which all are this one: they differ in the memory that they share.

namespace atp::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

using HostOf = std::vector<std::size_t>;

std::vector<CommunicatorOptions> options_on(const TestingCluster& cluster, const HostOf& host_of) {
  std::vector<CommunicatorOptions> options = all_options(cluster);
  for (auto& each : options) {
    ++each.job.job;  // beside the same job whose ranks all send for themselves
    each.host_of = host_of;
  }
  return options;
}

std::uint64_t counter(const Communicator& communicator, const std::string& name) {
  for (const auto& [found, value] : communicator.counters()) {
    if (found == name) return value;
  }
  return 0;
}

class SeveralHosts : public ::testing::TestWithParam<std::tuple<NumberFormat, HostOf>> {};

TEST_P(SeveralHosts, GiveTheBitsOfRanksThatAllSendForThemselves) {
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

std::string name_of_case(const ::testing::TestParamInfo<SeveralHosts::ParamType>& info) {
  const auto& [format, host_of] = info.param;
  std::string name = format == NumberFormat::kBlocks ? "BlocksOn" : "Int16On";
  for (const std::size_t host : host_of) name += std::to_string(host);
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Of, SeveralHosts,
    ::testing::Combine(::testing::Values(NumberFormat::kBlocks, NumberFormat::kBlocksInt16),
                       ::testing::Values(HostOf{0, 0, 1, 1}, HostOf{0, 1, 0, 1, 2, 0})),
    name_of_case);

}  // namespace
}  // namespace atp::testing
