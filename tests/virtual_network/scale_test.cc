#include <sys/resource.h>

#include <chrono>
#include <cstdio>

#include "atp/sim/cluster.h"
#include "tests/virtual_network/scenario.h"

// Clusters of up to 1,024 workers in 32 racks. Time and memory are printed, never judged.

namespace atp::sim {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class Cluster : public testing::TestWithParam<std::uint16_t> {};

// From the very first fragment on: the job begins when all JOINs through the tree have arrived, and
// by then each switch on the path has learned which ranks it must wait for.
TEST_P(Cluster, GetsTheExactSumOnEveryRankAndSendsTheServerOneGradientPerFragment) {
  const auto begin = std::chrono::steady_clock::now();
  World world(cluster_plan({.workers = GetParam()}));
  EXPECT_TRUE(world.run_to_completion()) << world.unfinished();
  EXPECT_THAT(world.violations(), testing::IsEmpty());
  const Counters<ServerCounter>& server = world.server().counters();
  // 100 of values, and one of the exponents of their blocks.
  EXPECT_EQ(server[ServerCounter::kFragmentsCompletedByOnePacket], 101);
  EXPECT_EQ(server[ServerCounter::kGradientsReceived], 101);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "  %4u workers: %.2f s, %ld MiB at most, %llu packets over %llu links, %.3f ms of "
      "simulated time\n",
      GetParam(), seconds_since(begin), usage.ru_maxrss / 1024,
      static_cast<unsigned long long>(world.packets_sent()),
      static_cast<unsigned long long>(world.network().steps()),
      static_cast<double>(world.now().time_since_epoch().count()) * 1e-6);
}

INSTANTIATE_TEST_SUITE_P(VirtualNetwork, Cluster, testing::Values(32, 128, 512, 1024));

}  // namespace
}  // namespace atp::sim
