#include <sys/resource.h>

#include <chrono>
#include <cstdio>

#include "tests/virtual_network/scenario.h"

// A cluster: racks of 32 workers with a switch each, the server's rack above them. The payload of a
// fragment is reduced to two values. Time and memory are printed, never judged.

namespace atp::sim {
namespace {

constexpr std::uint16_t kRackSize = 32;

Plan cluster(std::uint16_t workers) {
  Plan plan = small_plan(workers, {200});  // 100 fragments
  const auto racks = static_cast<std::uint32_t>((workers + kRackSize - 1) / kRackSize);
  plan.switches = racks + 1;
  plan.switch_config.aggregators = 65536;
  plan.switch_config.max_value_count = 2;
  plan.server_config.wmax = 256;
  const LinkPlan link{.bits_per_s = 100'000'000'000, .delay = std::chrono::nanoseconds(500)};
  plan.fabric.worker = plan.fabric.server = plan.fabric.rack = link;
  plan.fabric.switch_node = {};
  plan.fabric.server_rack = {racks};
  JobPlan& job = plan.jobs[0];
  job.max_value_count = 2;
  for (std::uint32_t i = 0; i < racks; ++i) {
    plan.fabric.switch_rack.push_back(i);
    job.uplink.push_back(static_cast<int>(racks));
  }
  plan.fabric.switch_rack.push_back(racks);
  job.uplink.push_back(-1);
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    job.rack.push_back(rank / kRackSize);
    job.parent.push_back(static_cast<int>(rank / kRackSize));
  }
  return plan;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class Cluster : public testing::TestWithParam<std::uint16_t> {};

TEST_P(Cluster, GetsTheExactSumOnEveryRank) {
  const auto begin = std::chrono::steady_clock::now();
  World world(cluster(GetParam()));
  EXPECT_TRUE(world.run_to_completion()) << world.unfinished();
  EXPECT_THAT(world.violations(), testing::IsEmpty());
  const Counters<ServerCounter>& server = world.server().counters();
  EXPECT_EQ(server[ServerCounter::kFragmentsCompleted], 100);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "  %4u workers: %.2f s, %ld MiB at most, %llu packets over %llu links, %.3f ms of "
      "simulated time, %llu fragments by one packet\n",
      GetParam(), seconds_since(begin), usage.ru_maxrss / 1024,
      static_cast<unsigned long long>(world.packets_sent()),
      static_cast<unsigned long long>(world.network().steps()),
      static_cast<double>(world.now().time_since_epoch().count()) * 1e-6,
      static_cast<unsigned long long>(server[ServerCounter::kFragmentsCompletedByOnePacket]));
}

INSTANTIATE_TEST_SUITE_P(VirtualNetwork, Cluster, testing::Values(32, 128, 512, 1024));

}  // namespace
}  // namespace atp::sim
