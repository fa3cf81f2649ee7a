#include <map>
#include <string>

#include "atp/sim/run_seed.h"
#include "tests/virtual_network/scenario.h"

// Trees of several levels, shards, and the paper's examples about placement.

namespace atp::sim {
namespace {

// The topology of paper Fig. 9: two workers in each of three racks, the server in the third.
Plan fig_9(std::vector<int> uplink) {
  Plan plan = small_plan(6, {400});
  plan.switches = 3;
  plan.fabric.rack.delay = microseconds(10);
  plan.fabric.switch_node = {};  // each switch node is its rack's own switch
  plan.fabric.switch_rack = {0, 1, 2};
  plan.fabric.server_rack = {2};
  plan.jobs[0].parent = {0, 0, 1, 1, 2, 2};
  plan.jobs[0].rack = {0, 0, 1, 1, 2, 2};
  plan.jobs[0].uplink = std::move(uplink);
  return plan;
}

// How many GRADIENTs reach the server per fragment.
double gradients_per_fragment(const Plan& plan) {
  World world(plan);
  expect_all_done(world);
  const Counters<ServerCounter>& server = world.server().counters();
  return static_cast<double>(server[ServerCounter::kGradientsReceived]) /
         static_cast<double>(server[ServerCounter::kFragmentsCompleted]);
}

TEST(Fig9, InterRackAggregationSendsTheServerOneGradientPerFragment) {
  EXPECT_EQ(gradients_per_fragment(fig_9({2, 2, -1})), 1.0);
}

TEST(Fig9, RackScaleAggregationSendsTheServerThreePerFragment) {
  EXPECT_EQ(gradients_per_fragment(fig_9({-1, -1, -1})), 3.0);
}

struct TreeCase {
  const char* name;
  std::uint32_t switches;
  std::vector<int> parent;  // of six ranks
  std::vector<int> uplink;
  double gradients;  // at the server, per fragment
};

class Tree : public testing::TestWithParam<TreeCase> {
 protected:
  static Plan plan() {
    Plan plan = small_plan(6, {400});
    plan.switches = GetParam().switches;
    plan.jobs[0].parent = GetParam().parent;
    plan.jobs[0].uplink = GetParam().uplink;
    return plan;
  }
};

TEST_P(Tree, SumsAtEveryLevel) { EXPECT_EQ(gradients_per_fragment(plan()), GetParam().gradients); }

TEST_P(Tree, EndsWellWhenPacketsAreLost) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Plan lossy = plan();
    lossy.seed = seed;
    lossy.path_faults = {
        {.loss = 0.05, .duplicate = 0.05, .held_back = 0.1, .held_back_max = milliseconds(1)}};
    lossy.heal = milliseconds(300);
    World world(lossy);
    expect_all_done(world);
  }
}

TEST_P(Tree, SurvivesTheDeathOfEachSwitch) {
  for (std::uint32_t i = 0; i < GetParam().switches; ++i) {
    for (const bool returns : {false, true}) {
      Plan deadly = plan();
      deadly.jobs[0].operations.assign(200, deadly.jobs[0].operations[0]);
      deadly.jobs[0].think_max = milliseconds(3);
      World world(deadly);
      world.run_for(milliseconds(100));
      world.kill(world.switch_host(i));
      if (returns) world.at(world.now() + milliseconds(200), [&] { world.restart_switch(i); });
      expect_all_done(world);
    }
  }
}

const TreeCase kTrees[] = {
    {"of_height_0", 0, {-1, -1, -1, -1, -1, -1}, {}, 6},
    {"of_height_1", 1, {0, 0, 0, 0, 0, 0}, {-1}, 1},
    {"of_height_2_with_the_servers_switch", 3, {0, 0, 1, 1, 2, 2}, {2, 2, -1}, 1},
    {"of_height_2_with_all_workers_in_other_racks", 3, {0, 0, 0, 1, 1, 1}, {2, 2, -1}, 1},
    {"of_height_3", 4, {0, 0, 1, 1, 2, 3}, {2, 2, 3, -1}, 1},
    {"of_height_3_in_a_line", 3, {0, 0, 1, 1, 2, 2}, {1, 2, -1}, 1},
    {"with_a_rack_without_a_switch_behind_the_servers", 2, {0, 0, 0, 1, 1, 1}, {1, -1}, 1},
    {"with_a_rack_without_any_switch_on_its_way", 2, {0, 0, -1, -1, 1, 1}, {1, -1}, 3},
};
INSTANTIATE_TEST_SUITE_P(VirtualNetwork, Tree, testing::ValuesIn(kTrees),
                         [](const auto& instance) { return instance.param.name; });

// Shards: each rank has a socket per server, with streams of its own.
TEST(Shards, EachSumItsOwnStreamsInATreeOfItsOwn) {
  Plan plan = small_plan(4, {200, 70});
  plan.servers = 3;
  plan.switches = 3;
  plan.switch_config.aggregators = 65536;  // three shards, and no collision
  plan.jobs.resize(3, plan.jobs[0]);
  for (std::uint16_t shard = 0; shard < 3; ++shard) {
    JobPlan& job = plan.jobs[shard];
    job.server = shard;
    job.first_stream = static_cast<std::uint16_t>(2 * shard);
    job.stream_count = 2;
    job.data_seed = shard;
    // Each shard has another switch as its root.
    job.parent = {0, 0, 1, 2};
    job.uplink = {shard, shard, shard};
    job.uplink[shard] = -1;
  }
  World world(plan);
  expect_all_done(world);
  for (std::uint32_t shard = 0; shard < 3; ++shard) {
    const Counters<ServerCounter>& counters = world.server(shard).counters();
    EXPECT_EQ(counters[ServerCounter::kFragmentsCompletedByOnePacket],
              counters[ServerCounter::kFragmentsCompleted]);
  }
}

TEST(Shards, AServerThatDiesFailsItsOwnStreamsOnly) {
  Plan plan = steady_plan(3, 200, 40, milliseconds(5));
  plan.servers = 2;
  plan.jobs.resize(2, plan.jobs[0]);
  plan.jobs[1].first_stream = 1;
  plan.jobs[1].server = 1;
  World world(plan);
  world.run_for(milliseconds(100));
  world.kill(world.server_host(1));
  EXPECT_TRUE(world.run_to_completion()) << world.unfinished();
  for (const Rank rank : {0, 1, 2}) {
    EXPECT_TRUE(world.application(rank, 0).finished());
    EXPECT_EQ(world.application(rank, 1).failure().value_or(Failure{}).code,
              FailureCode::kServerLost);
  }
}

// Paper §3.6: two jobs that share an aggregator could each wait for the other's. Paper §3.7: a job
// whose workers vanish leaves its aggregators behind.
TEST(StalledAggregation, TwoJobsInTwoLevelsDoNotStall) {
  Plan plan = small_plan(4, {60, 60});
  plan.switches = 3;
  plan.switch_config.aggregators = 1;
  plan.jobs.resize(2, plan.jobs[0]);
  plan.jobs[1].key = {2, 2};
  for (JobPlan& job : plan.jobs) {
    job.parent = {0, 0, 1, 1};
    job.uplink = {2, 2, -1};
  }
  World world(plan);
  expect_all_done(world);
}

TEST(MemoryLeak, TheSweepFreesAJobWhoseWorkersVanish) {
  Plan plan = steady_plan(4, 400, 40, milliseconds(20));
  plan.switches = 3;
  plan.jobs[0].parent = {0, 0, 1, 1};
  plan.jobs[0].uplink = {2, 2, -1};
  World world(plan);
  // Rank 3 is dead, the others have filled aggregators that will never be complete, and die too.
  world.run_for(seconds(1));
  world.kill(world.worker_host(3));
  world.run_for(milliseconds(50));
  for (const Rank rank : {0, 1, 2}) world.kill(world.worker_host(rank));
  EXPECT_GT(world.aggregators_in_use(), 0);
  world.run_for(plan.timing.reclaim * 3 + plan.timing.sweep * 2);
  EXPECT_EQ(world.aggregators_in_use(), 0);
  world.run_for(plan.timing.lease * 2);
  EXPECT_EQ(world.jobs_held(), 0);
}

}  // namespace
}  // namespace atp::sim
