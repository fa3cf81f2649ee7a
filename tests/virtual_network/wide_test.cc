#include "tests/virtual_network/scenario.h"

// Jobs of more than 64 ranks, whose bitmaps have a second word (H24), with all kinds of faults.

namespace atp::sim {
namespace {

constexpr std::uint16_t kRanks = 70;

// How the ranks are distributed over two switches.
struct WideCase {
  const char* name;
  int (*parent)(std::uint32_t rank);
  std::vector<int> uplink;
};

class Wide : public testing::TestWithParam<WideCase> {
 protected:
  static Plan plan(std::size_t operations) {
    Plan plan = steady_plan(kRanks, operations, 40, milliseconds(2));
    plan.switches = 2;
    JobPlan& job = plan.jobs[0];
    job.number_format = NumberFormat::kBlocks;
    job.stream_count = 2;
    job.uplink = GetParam().uplink;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      job.parent.push_back(GetParam().parent(rank));
    }
    return plan;
  }
};

TEST_P(Wide, SumsInTheSwitches) {
  World world(plan(20));
  expect_all_done(world);
  const Counters<ServerCounter>& server = world.server().counters();
  EXPECT_EQ(server[ServerCounter::kNacks], 0);
  EXPECT_EQ(world.switch_counters()[SwitchCounter::kPartialSumsSent], 0);
}

TEST_P(Wide, EndsWellWhenPacketsAreLostDoubledAndReordered) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Plan faulty = plan(40);
    faulty.seed = seed;
    faulty.jobs[0].operations[5].values = Values::kLarge;
    faulty.jobs[0].operations[6].values = Values::kNotFinite;
    faulty.path_faults = {{.loss = 0.03,
                           .duplicate = 0.05,
                           .held_back = 0.1,
                           .held_back_max = milliseconds(2),
                           .corrupt = 0.02,
                           .truncate = 0.02}};
    faulty.hostile = 0.01;
    faulty.heal = seconds(2);  // some of 140 JOINs are lost, so joining takes a while
    World world(faulty);
    expect_all_done(world);
    EXPECT_GT(world.worker_counters()[WorkerCounter::kRepeatsDirect], 0);
    EXPECT_GT(world.server_counters()[ServerCounter::kFragmentsCompletedByServer], 0);
    EXPECT_GT(world.server_counters()[ServerCounter::kFragmentsCompletedFloat], 0);
  }
}

TEST_P(Wide, SurvivesTheDeathOfASwitchAndReturnsToTheTree) {
  for (const std::uint32_t dead : {0U, 1U}) {
    SCOPED_TRACE(testing::Message() << "switch " << dead);
    World world(plan(1600));
    world.run_for(milliseconds(100));
    world.kill(world.switch_host(dead));
    world.at(world.now() + seconds(1), [&] { world.restart_switch(dead); });
    expect_all_done(world);
    EXPECT_GT(world.worker_counters()[WorkerCounter::kDetachments], 0);
    EXPECT_EQ(world.worker_counters()[WorkerCounter::kReturns],
              world.worker_counters()[WorkerCounter::kDetachments]);
  }
}

// The ranks at the edges of both words.
TEST_P(Wide, NamesTheRankThatDies) {
  for (const Rank dead : {0, 63, 64, 69}) {
    World world(plan(400));
    world.run_for(milliseconds(100));
    world.kill(world.worker_host(dead));
    world.run(seconds(15), [&] { return world.all(&Application::failed); });
    for (Rank rank = 0; rank < kRanks; ++rank) {
      if (rank == dead) continue;
      const Failure failure = world.application(rank).failure().value_or(Failure{});
      ASSERT_EQ(failure.code, FailureCode::kRankLost);
      ASSERT_EQ(failure.ranks, RankSet::of(dead));
    }
  }
}

const WideCase kCases[] = {
    {"with_a_half_of_the_ranks_behind_each_switch",
     [](std::uint32_t rank) { return rank < kRanks / 2 ? 0 : 1; },
     {-1, -1}},
    {"with_every_other_rank_behind_each_switch",
     [](std::uint32_t rank) { return static_cast<int>(rank % 2); },
     {-1, -1}},
    {"with_one_switch_behind_the_other",
     [](std::uint32_t rank) { return static_cast<int>(rank % 2); },
     {1, -1}},
};
INSTANTIATE_TEST_SUITE_P(VirtualNetwork, Wide, testing::ValuesIn(kCases),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace atp::sim
