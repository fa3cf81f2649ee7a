#include "atp/collective/network/colocated_server.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "atp/collective/testing/cluster.h"
#include "atp/collective/testing/tensors.h"

// Communicators that each serve a part of the job: as many servers as ranks, behind a switch.

namespace atp::testing {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kRanks = 3;

std::vector<Endpoint> free_addresses(std::size_t count) {
  std::vector<UdpSocket> sockets;
  std::vector<Endpoint> addresses;
  for (std::size_t i = 0; i < count; ++i) {
    sockets.push_back(UdpSocket::open(loopback()).value());
    addresses.push_back(sockets.back().local());
  }
  return addresses;
}

std::uint64_t count_of(const Communicator& communicator, const std::string& name) {
  for (const auto& [counter, value] : communicator.counters()) {
    if (counter == name) return value;
  }
  ADD_FAILURE() << "there is no counter " << name;
  return 0;
}

class ColocatedServers : public ::testing::Test {
 protected:
  CommunicatorOptions options(std::size_t rank) const {
    CommunicatorOptions options = cluster_.options(rank);
    options.more_routes.clear();
    for (std::size_t i = 0; i < kRanks; ++i) {
      const std::vector<Endpoint> way{cluster_.switch_node().endpoint(), servers_[i]};
      if (i == 0) options.route = way;
      if (i > 0) options.more_routes.push_back(way);
    }
    options.colocated_server = servers_[rank];
    return options;
  }
  Communicators join_all() const {
    std::vector<CommunicatorOptions> all;
    all.reserve(kRanks);
    for (std::size_t rank = 0; rank < kRanks; ++rank) all.push_back(options(rank));
    return join_with(all);
  }
  static Communicators join_with(const std::vector<CommunicatorOptions>& all) {
    Communicators communicators;
    for (auto& result : join(all)) {
      EXPECT_TRUE(result.ok()) << result.error().message;
      communicators.push_back(std::move(result).value());
    }
    return communicators;
  }

  TestingCluster cluster_{kRanks};  // the cluster's own server is idle
  std::vector<Endpoint> servers_ = free_addresses(kRanks);
};

TEST_F(ColocatedServers, NeedTheTenantsKeyAndNotThatOfAJobAlone) {
  CommunicatorOptions alone = options(1);
  alone.key = JobKeys{.tenant = 1, .by_job = {{alone.job.job, {}}}};
  const auto joined = Communicator::connect(alone);
  ASSERT_FALSE(joined.ok());
  EXPECT_THAT(joined.error().message,
              AllOf(HasSubstr("the colocated server of rank 1"), HasSubstr("set ATP_KEY_FILE")));
}

// Ranks do not know the number that a server gives their tenant.
TEST_F(ColocatedServers, KnowTheJobOfTheirTenantAndSayWhoIsStillInIt) {
  const Tenant tenant{.name = "vision"};
  std::vector<CommunicatorOptions> all;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    CommunicatorOptions keyed = options(rank);
    keyed.key = tenant;
    keyed.route.erase(keyed.route.begin());  // the switch has no keys
    for (std::vector<Endpoint>& route : keyed.more_routes) route.erase(route.begin());
    all.push_back(keyed);
  }
  const Communicators communicators = join_with(all);
  const auto server = ColocatedServer::at(servers_[0], 0, tenant).value();
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(1'100);
  std::string said;
  EXPECT_FALSE(server->wait_until_left(all[0].job, soon, [&](const std::string& text) {
    said += text;
  })) << "all are still there";
  EXPECT_EQ(said,
            "waiting for 1 s: ranks 0 to 2 have not left the job, and may need the server in "
            "this process");
  shut_down(communicators);
}

TEST_F(ColocatedServers, RunInAThreadWithAName) {
  const Communicators communicators = join_all();
  std::vector<std::string> names;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::getline(std::ifstream(thread.path() / "comm"), names.emplace_back());
  }
  EXPECT_EQ(std::count(names.begin(), names.end(), "atp-server"), kRanks);
  EXPECT_EQ(std::count(names.begin(), names.end(), "atp-worker"), kRanks * kRanks);
  shut_down(communicators);
}

TEST_F(ColocatedServers, SumAPartEachAndEndWhenAllHaveLeft) {
  Communicators communicators = join_all();
  const std::vector<std::size_t> sizes{300'000, 10, 200'000, 1};
  in_parallel(kRanks, [&](std::size_t rank) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<float> tensor = tensor_of(rank, i, sizes[i]);
      EXPECT_EQ(message(communicators[rank]->all_reduce(tensor).wait()), "");
      EXPECT_EQ(tensor, sum_of(kRanks, i, sizes[i]));
    }
    EXPECT_EQ(message(communicators[rank]->shutdown()), "");
  });
  for (const auto& communicator : communicators) {
    EXPECT_GT(count_of(*communicator, "server_fragments_completed_by_one_packet"), 300u);
    EXPECT_EQ(count_of(*communicator, "server_jobs_ended"), 1u) << "shutdown() waits for that";
  }
  communicators.clear();
  for (const Endpoint& address : servers_) EXPECT_TRUE(UdpSocket::open(address).ok());
}

TEST_F(ColocatedServers, TheOthersNameAServerThatEndedWithItsRank) {
  Communicators communicators = join_all();
  communicators[1].reset();  // aborts, and its server ends with it
  in_parallel(2, [&](std::size_t i) {
    std::vector<float> tensor(300'000, 1);
    EXPECT_THAT(message(communicators[2 * i]->all_reduce(tensor).wait()),
                AllOf(HasSubstr("all_reduce #0 (300,000 values)"), HasSubstr("rank 1")));
  });
}

TEST_F(ColocatedServers, AreSharedByTheCommunicatorsOfAProcess) {
  const auto first = ColocatedServer::at(servers_[0], 350);
  const auto second = ColocatedServer::at(servers_[0], 350);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first.value(), second.value());
}

TEST_F(ColocatedServers, WaitForAJobOnlyWhileARankIsInIt) {
  const auto server = ColocatedServer::at(servers_[0], 350).value();
  const auto now = std::chrono::steady_clock::now();
  EXPECT_TRUE(server->wait_until_left({77, 1}, now + seconds(60), nullptr)) << "no such job";
}

TEST_F(ColocatedServers, AreRefusedAtAnAddressThatIsNotFreeOrHasNoPort) {
  const UdpSocket other = UdpSocket::open(loopback()).value();
  struct Case {
    const char* name;
    Endpoint address;
    std::vector<const char*> said;
  };
  const Case cases[] = {
      {"taken", other.local(), {"cannot serve a part of the job in this process", "in use"}},
      {"no port", loopback(), {"needs a port that the other ranks know"}},
  };
  for (const Case& c : cases) {
    CommunicatorOptions one = options(0);
    one.colocated_server = c.address;
    const auto joined = Communicator::connect(one);
    ASSERT_FALSE(joined.ok()) << c.name;
    for (const char* said : c.said) EXPECT_THAT(joined.error().message, HasSubstr(said));
  }
}

}  // namespace
}  // namespace atp::testing
