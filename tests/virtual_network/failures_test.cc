#include "tests/virtual_network/scenario.h"

// Wrong use and the death of a peer: each ends in bounded time at every worker concerned, with a
// failure that names the ranks and their endpoints.

namespace atp::sim {
namespace {

using testing::Eq;
using testing::Optional;

bool failed_everywhere(World& world) { return world.all(&Application::failed); }

Failure failure_of(World& world, Rank rank) {
  return world.application(rank).failure().value_or(Failure{});
}

TEST(Failures, ARankThatDiesIsNamedByAllOthers) {
  World world(steady_plan(4, 400, 40, milliseconds(20)));
  world.run_for(seconds(1));
  world.kill(world.worker_host(2));
  world.run(seconds(15), [&] { return failed_everywhere(world); });
  for (const Rank rank : {0, 1, 3}) {
    EXPECT_EQ(failure_of(world, rank).code, FailureCode::kRankLost);
    EXPECT_EQ(failure_of(world, rank).ranks, RankSet::of(2));
  }
  EXPECT_THAT(world.violations(), testing::IsEmpty());
}

TEST(Failures, ARankThatNeverJoinsIsNamedByAllOthers) {
  World world(small_plan(3, {10}));
  world.kill(world.worker_host(1));
  world.run(seconds(40), [&] { return failed_everywhere(world); });
  for (const Rank rank : {0, 2}) {
    EXPECT_EQ(failure_of(world, rank).code, FailureCode::kJoinTimeout);
    EXPECT_EQ(failure_of(world, rank).ranks, RankSet::of(1));
  }
}

TEST(Failures, WithoutASwitchAtTheAddressTheJobRunsDetached) {
  World world(small_plan(3, {10, 20}));
  world.kill(world.switch_host(0));
  EXPECT_TRUE(world.run_to_completion()) << world.unfinished();
  EXPECT_EQ(world.worker_counters()[WorkerCounter::kDetachments], 3u);
}

TEST(Failures, WithoutAServerJoiningFailsAndNamesIt) {
  World world(small_plan(2, {10}));
  world.kill(world.server_host());
  world.run(seconds(40), [&] { return failed_everywhere(world); });
  for (const Rank rank : {0, 1}) {
    EXPECT_EQ(failure_of(world, rank).code, FailureCode::kJoinTimeout);
    EXPECT_EQ(failure_of(world, rank).endpoint, world.endpoint(world.server_host()));
  }
}

TEST(Failures, AServerThatDiesIsNamed) {
  World world(steady_plan(3, 400, 40, milliseconds(20)));
  world.run_for(seconds(1));
  world.kill(world.server_host());
  world.run(seconds(15), [&] { return failed_everywhere(world); });
  for (const Rank rank : {0, 1, 2}) {
    EXPECT_EQ(failure_of(world, rank).code, FailureCode::kServerLost);
    EXPECT_EQ(failure_of(world, rank).endpoint, world.endpoint(world.server_host()));
  }
}

TEST(Failures, AServerThatRestartsFailsPendingOperations) {
  World world(steady_plan(3, 400, 40, milliseconds(20)));
  world.run_for(seconds(1));
  world.restart_server(77);
  world.run(seconds(15), [&] { return failed_everywhere(world); });
  for (const Rank rank : {0, 1, 2}) {
    EXPECT_EQ(failure_of(world, rank).code, FailureCode::kServerRestarted);
  }
  EXPECT_THAT(world.violations(), testing::IsEmpty());
}

TEST(Failures, AServerThatRestartsTellsTheOthersAtOnceThoughADeadRankNeverJoinsAgain) {
  for (const bool idle : {false, true}) {
    SCOPED_TRACE(idle ? "nothing is pending" : "operations are pending");
    World world(steady_plan(3, idle ? 1 : 400, 40, milliseconds(20)));
    world.run_for(seconds(1));
    world.kill(world.worker_host(2));
    world.restart_server(77);
    // At the latest with the next refresh of a JOIN, without waiting for rank 2.
    world.run(seconds(2), [&] { return failed_everywhere(world); });
    for (const Rank rank : {0, 1}) {
      EXPECT_EQ(failure_of(world, rank).code, FailureCode::kServerRestarted);
    }
    EXPECT_EQ(world.server().job_count(), 0) << "no job is left that would wait for rank 2";
  }
}

// Rank 2 dies after it has contributed, so that the operation lacks only rank 1, which is slow.
TEST(Failures, AnEndedLeaseIsAnnouncedAgainToARankThatMissedIt) {
  Plan plan = small_plan(3, {4, 4});
  plan.jobs[0].operations[0].spec.timeout = plan.jobs[0].operations[1].spec.timeout = seconds(60);
  World world(plan);
  const Endpoint slow = world.endpoint(world.worker_host(1));
  const Endpoint deaf = world.endpoint(world.worker_host(0));
  int missed = 0;
  world.set_tap([&](const Packet& packet) -> Verdict {
    if (packet.from == slow && is(packet, PacketType::kGradient)) return {.drop = true};
    const auto status = status_of(packet);
    const bool news = status && status->code == StatusCode::kLeaseEnded && packet.to == deaf;
    return {.drop = news && missed++ == 0};
  });
  world.run_for(milliseconds(100));
  world.kill(world.worker_host(2));
  world.run(seconds(10), [&] { return missed > 0; });
  const Instant told = world.now();
  world.run(seconds(3), [&] { return failed_everywhere(world); });
  EXPECT_EQ(failure_of(world, 0).code, FailureCode::kRankLost);
  EXPECT_EQ(failure_of(world, 0).ranks, RankSet::of(2)) << "not those that gave up because of it";
  EXPECT_LE(world.now() - told, milliseconds(1100)) << "with the next refresh of its JOIN";
}

TEST(Failures, ARankThatLeavesWithOperationsPendingFailsThemOnTheOthers) {
  World world(steady_plan(3, 400, 40, milliseconds(20)));
  world.run_for(seconds(1));
  world.application(1).leave();
  world.wake_application(1);
  world.run(seconds(15),
            [&] { return world.application(0).failure() && world.application(2).failure(); });
  for (const Rank rank : {0, 2}) {
    EXPECT_EQ(failure_of(world, rank).code, FailureCode::kRankLeft);
    EXPECT_EQ(failure_of(world, rank).ranks, RankSet::of(1));
  }
}

struct MismatchCase {
  const char* name;
  void (*change)(std::vector<OperationPlan>&);
};

class Mismatch : public testing::TestWithParam<MismatchCase> {};

TEST_P(Mismatch, NamesTheRanksOnEachSide) {
  Plan plan = small_plan(4, {10, 24, 24, 9});
  plan.jobs[0].own_operations.resize(4);
  plan.jobs[0].own_operations[3] = plan.jobs[0].operations;
  GetParam().change(plan.jobs[0].own_operations[3]);
  plan.jobs[0].max_in_flight = 1;
  World world(plan);
  EXPECT_TRUE(world.run(seconds(10), [&] { return failed_everywhere(world); }))
      << world.unfinished();
  const RankSet others = RankSet::first(3);
  for (const Rank rank : {0, 1, 2}) {
    EXPECT_EQ(failure_of(world, rank).code, FailureCode::kOperationMismatch);
    EXPECT_EQ(failure_of(world, rank).ranks, others);
    EXPECT_EQ(failure_of(world, rank).other, RankSet::of(3));
  }
  EXPECT_EQ(failure_of(world, 3).ranks, RankSet::of(3));
  EXPECT_EQ(failure_of(world, 3).other, others);
}

const MismatchCase kMismatches[] = {
    {"of_size", [](auto& operations) { operations[1].spec.count = 25; }},
    {"of_order", [](auto& operations) { std::swap(operations[0], operations[1]); }},
    {"of_reduction", [](auto& operations) { operations[0].spec.reduction = Reduction::kAverage; }},
    {"of_tag", [](auto& operations) { operations[1].spec.tag = 9; }},
};
INSTANTIATE_TEST_SUITE_P(Failures, Mismatch, testing::ValuesIn(kMismatches),
                         [](const auto& instance) { return instance.param.name; });

TEST(Failures, ASecondWorkerWithTheSameRankIsRefusedAndTheFirstIsUndisturbed) {
  Plan plan = steady_plan(2, 100, 40, milliseconds(20));
  plan.jobs.push_back(plan.jobs[0]);  // the same ranks of the same job from other addresses
  plan.jobs[1].nonce_salt = 0xbad;
  plan.jobs[1].start = {milliseconds(300), milliseconds(300)};
  World world(plan);
  world.run(seconds(30), [&] {
    return world.application(0).finished() && world.application(1).finished() &&
           world.application(0, 1).failure() && world.application(1, 1).failure();
  });
  for (const Rank rank : {0, 1}) {
    EXPECT_TRUE(world.application(rank).finished());
    const auto failure = world.application(rank, 1).failure();
    ASSERT_TRUE(failure.has_value());
    EXPECT_EQ(failure->code, FailureCode::kRankTaken);
    EXPECT_EQ(failure->endpoint, world.endpoint(world.worker_host(rank)));
  }
  EXPECT_THAT(world.violations(), testing::IsEmpty());
}

TEST(Failures, AnotherWorldSizeIsRefused) {
  Plan plan = steady_plan(2, 100, 40, milliseconds(20));
  plan.jobs.push_back(plan.jobs[0]);
  plan.jobs[1].nonce_salt = 0xbad;
  plan.jobs[1].world_size = 3;
  plan.jobs[1].start = {seconds(60), seconds(60), milliseconds(300)};
  World world(plan);
  world.run(seconds(30),
            [&] { return world.application(0).finished() && world.application(2, 1).failure(); });
  EXPECT_TRUE(world.application(0).finished());
  const auto failure = world.application(2, 1).failure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->code, FailureCode::kRefused);
  EXPECT_EQ(failure->reason, RefusalReason::kWorldSize);
}

}  // namespace
}  // namespace atp::sim
