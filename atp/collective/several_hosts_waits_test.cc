#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "atp/collective/testing/cluster.h"

// On several hosts, all simulated on this one, every rank says after a second for whom it waits,
// also if only its host's leader hears that from the network.

namespace atp::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What each rank has said.
class Said {
 public:
  std::function<void(const std::string&)> by(std::size_t rank) {
    return [this, rank](const std::string& text) {
      const std::lock_guard lock(mutex_);
      lines_[rank] += text + "\n";
    };
  }
  std::string lines(std::size_t rank) {
    const std::lock_guard lock(mutex_);
    return lines_[rank];
  }

 private:
  std::mutex mutex_;
  std::map<std::size_t, std::string> lines_;
};

struct Row {
  const char* name;
  HostOf host_of;
  std::set<std::size_t> late;
  std::map<std::size_t, std::string> says;  // what each of the others says of them
};

const Row kRows[] = {
    {"a leader is late: the followers of both hosts",
     {0, 0, 1, 1},
     {2},
     {{0, "the host of rank 2 (127.0.0.1)"},
      {1, "the host of rank 2 (127.0.0.1)"},
      {3, "rank 2 (process"}}},
    {"a follower is late: its leader knows better than the other host",
     {0, 0, 1, 1},
     {3},
     {{0, "the host of rank 2 (127.0.0.1)"},
      {1, "the host of rank 2 (127.0.0.1)"},
      {2, "rank 3 (process"}}},
    {"two followers wait for the same host",
     {0, 0, 0, 1},
     {3},
     {{0, "the host of rank 3 (127.0.0.1)"},
      {1, "the host of rank 3 (127.0.0.1)"},
      {2, "the host of rank 3 (127.0.0.1)"}}},
    {"two of three hosts are late",
     {0, 0, 1, 2, 2},
     {2, 3},
     {{0, "the hosts of ranks 2 (127.0.0.1) and 3 (127.0.0.1)"},
      {1, "the hosts of ranks 2 (127.0.0.1) and 3 (127.0.0.1)"},
      {4, "rank 3 (process"}}},
    {"the lowest leader is late",
     {0, 0, 1, 1},
     {0},
     {{1, "rank 0 (process"},
      {2, "the host of rank 0 (127.0.0.1)"},
      {3, "the host of rank 0 (127.0.0.1)"}}},
};

void expect_named(const Row& row, Reduction reduction) {
  SCOPED_TRACE(row.name);
  const std::size_t ranks = row.host_of.size();
  const TestingCluster cluster(ranks);
  std::vector<CommunicatorOptions> options = options_on(cluster, row.host_of);
  Said said;
  for (std::size_t rank = 0; rank < ranks; ++rank) options[rank].on_warning = said.by(rank);
  const Communicators hosts = join_all(options);
  in_parallel(ranks, [&](std::size_t rank) {
    std::vector<float> tensor(100'000, 1);
    EXPECT_EQ(message(hosts[rank]->all_reduce(tensor).wait()), "");
    if (row.late.count(rank) > 0) std::this_thread::sleep_for(milliseconds(2600));
    // Callers that drive the engine themselves, and those that leave it to its thread.
    const CollectiveRequest asked{.reduction = element_reduction_of(reduction),
                                  .here = rank % 2 == 0};
    EXPECT_EQ(message(hosts[rank]->all_reduce(tensor, asked).wait()), "");
  });
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    SCOPED_TRACE(rank);
    const std::string lines = said.lines(rank);
    const auto expected = row.says.find(rank);
    if (expected == row.says.end()) {
      // On a busy machine the meeting may have had to wait, too.
      EXPECT_THAT(lines, Not(HasSubstr("all_reduce #1"))) << "the others wait for it";
      continue;
    }
    EXPECT_THAT(lines, AllOf(HasSubstr("waiting for "), HasSubstr(expected->second),
                             HasSubstr("all_reduce #1 (100,000 values)"), HasSubstr("resumed")));
  }
  shut_down(hosts);
}

TEST(WaitsOfSeveralHosts, AreToldByEveryRank) {
  std::vector<std::thread> at_once;
  at_once.reserve(2 * std::size(kRows));
  for (const Row& row : kRows) {
    for (const Reduction reduction : {Reduction::kSum, Reduction::kMax}) {
      at_once.emplace_back([&row, reduction] { expect_named(row, reduction); });
    }
  }
  for (std::thread& each : at_once) each.join();
}

}  // namespace
}  // namespace atp::testing
