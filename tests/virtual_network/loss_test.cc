#include <algorithm>
#include <vector>

#include "tests/virtual_network/scenario.h"

// How long operations take when packets are lost: a loss costs about a round trip if later packets
// show it, and otherwise no more than a few.

namespace atp::sim {
namespace {

// Four ranks behind one switch, links of 200 Mbit/s, 64 KiB of float32 in blocks at a time.
Plan short_operations(double loss, CongestionPolicy policy) {
  Plan plan;
  plan.switch_config.aggregators = 4096;
  plan.switch_config.max_value_count = 350;
  plan.fabric.worker = {.bits_per_s = 200'000'000, .delay = microseconds(50)};
  plan.fabric.switch_node = {.bits_per_s = 1'000'000'000, .delay = microseconds(50)};
  plan.fabric.server = {.bits_per_s = 200'000'000, .delay = microseconds(50)};
  JobPlan job;
  job.world_size = 4;
  job.stream_count = 4;
  job.max_value_count = 350;
  job.number_format = NumberFormat::kBlocks;
  job.max_in_flight = 1;
  job.congestion = policy;
  OperationPlan operation;
  operation.spec.count = 16384;
  operation.spec.format = NumberFormat::kBlocks;
  job.operations.assign(200, operation);
  plan.jobs.push_back(job);
  plan.path_faults = {{.loss = loss}};
  plan.heal = seconds(1000);
  plan.bound = seconds(1000);
  return plan;
}

std::vector<Duration> times_of_operations(const Plan& plan) {
  World world(plan);
  std::vector<Duration> times;
  const auto completed = [&] {
    std::uint64_t least = ~std::uint64_t{0};
    for (Rank rank = 0; rank < 4; ++rank) {
      least = std::min(least, world.application(rank).completed());
    }
    return least;
  };
  Instant begun = world.now();
  while (times.size() < plan.jobs[0].operations.size() && world.now() < Instant{seconds(900)}) {
    world.run_for(microseconds(100));
    for (; times.size() < completed(); begun = world.now()) times.push_back(world.now() - begun);
  }
  EXPECT_THAT(world.violations(), testing::IsEmpty());
  std::sort(times.begin(), times.end());
  return times;
}

double median_ms(const std::vector<Duration>& times) {
  return std::chrono::duration<double, std::milli>(times.at(times.size() / 2)).count();
}

// Each of an operation's 48 fragments crosses ten links, so nearly five packets are lost. An
// operation takes four milliseconds without loss; with loss, at most half of them may wait for a
// timer of 25 ms or more. (Most of the rest is due to the window, which each loss halves.)
TEST(Loss, AHundredthOfThePacketsDoesNotMakeShortOperationsWaitForTimeOuts) {
  struct Case {
    CongestionPolicy policy;
    double at_most_ms;
  };
  for (const Case& c : {Case{CongestionPolicy::kNone, 10}, Case{CongestionPolicy::kAimd, 15}}) {
    const std::vector<Duration> times = times_of_operations(short_operations(0.01, c.policy));
    ASSERT_EQ(times.size(), 200u);
    EXPECT_LE(median_ms(times), c.at_most_ms);
  }
  const std::vector<Duration> without =
      times_of_operations(short_operations(0, CongestionPolicy::kAimd));
  EXPECT_LE(median_ms(without), 5);
}

// No sum is wrong and nothing is left over; it only takes longer.
TEST(Loss, IsRepairedByThePapersRules) {
  Plan plan = short_operations(0.01, CongestionPolicy::kPaper);
  plan.watched = true;
  plan.switch_config.places = 1;
  plan.switch_config.sharing.first_come = true;
  JobPlan& job = plan.jobs[0];
  job.room = job.plain_repeats = job.tolerance = false;
  job.operations.resize(50);
  EXPECT_EQ(times_of_operations(plan).size(), 50u);
}

}  // namespace
}  // namespace atp::sim
