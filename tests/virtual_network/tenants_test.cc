// Jobs of several tenants that have the same number, incarnation and streams share a switch and a
// server (docs/inside/protocol §2, *Keys*, rule 8). Tenant 0 has no keys.

#include "tests/virtual_network/scenario.h"

namespace atp::sim {
namespace {

constexpr std::uint32_t kTenants = 3;

Plan of_three_tenants(Plan plan) {
  plan.watched = true;
  for (std::uint16_t tenant = 1; tenant < kTenants; ++tenant) {
    JobPlan twin = plan.jobs[0];
    twin.key.tenant = tenant;
    twin.data_seed += tenant;
    plan.jobs.push_back(twin);
  }
  return plan;
}

TEST(Tenants, WithJobsOfOneNumberHaveExactSumsEachHoweverScarceAggregatorsAre) {
  for (const std::uint32_t aggregators : {1, 3, 64, 16384}) {
    SCOPED_TRACE(aggregators);
    Plan plan = of_three_tenants(steady_plan(3, 20, 400, microseconds(100)));
    plan.switch_config.aggregators = aggregators;
    World world(plan);
    expect_all_done(world);
    const std::uint64_t collisions = world.switch_counters()[SwitchCounter::kCollisions];
    EXPECT_EQ(collisions == 0, aggregators >= 64) << collisions;
  }
}

TEST(Tenants, DoNotNoticeThatAnotherOnesJobOfTheSameNumberDies) {
  Plan plan = of_three_tenants(steady_plan(3, 400, 40, milliseconds(20)));
  World world(plan);
  world.run_for(milliseconds(200));
  world.kill(world.worker_host(1, 1));
  EXPECT_TRUE(world.run_to_completion()) << world.unfinished();
  EXPECT_TRUE(world.application(0, 1).failed());
  for (const std::uint32_t job : {0U, 2U}) {
    for (const Rank rank : {0, 1, 2}) {
      EXPECT_FALSE(world.application(rank, job).failed()) << job << ' ' << rank;
      for (const auto counter : {WorkerCounter::kWaitingForReceived, WorkerCounter::kDetachments}) {
        EXPECT_EQ(world.worker(rank, job).counters()[counter], 0u);
      }
    }
  }
  world.check_departure();
  EXPECT_THAT(world.violations(), testing::IsEmpty());
}

}  // namespace
}  // namespace atp::sim
