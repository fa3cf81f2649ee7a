#include "atp/planner/replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "atp/planner/memory.h"
#include "atp/planner/testing_interconnects.h"

namespace atp::planner {
namespace {

using ::testing::ElementsAre;
using testing::flat;
using ::testing::HasSubstr;
using testing::linked;
using testing::switched;
using testing::two_levels;

constexpr double kGigabyte = 1e9;

// Two racks of four with a slow link between them.
Interconnect racks() { return two_levels(switched("rack", 2, 0.1), switched("host", 4, 1)); }

Request request_on(Interconnect interconnect, std::uint32_t batch, std::uint32_t replicas) {
  Request request{.interconnect = std::move(interconnect),
                  .model = {.name = "gpt", .hidden = 256, .layers = 2, .heads = 16},
                  .workload = {batch, 512}};
  request.options.replicas = replicas;
  request.options.dimension1 = request.options.dimension2 = request.options.data =
      CollectiveSet::only(Collective::kRing);
  return request;
}

TEST(ReplicaSplit, CutsTheUpperLevelsFirst) {
  EXPECT_THAT(*replica_split(racks(), 1), ElementsAre(1, 1));
  EXPECT_THAT(*replica_split(racks(), 2), ElementsAre(2, 1));
  EXPECT_THAT(*replica_split(racks(), 4), ElementsAre(2, 2));
  EXPECT_THAT(*replica_split(racks(), 8), ElementsAre(2, 4));
}

TEST(ReplicaSplit, IsAbsentIfReplicasWouldCutThroughAChildOrARing) {
  const Interconnect six = two_levels(switched("rack", 3, 1), switched("host", 2, 1));
  EXPECT_FALSE(replica_split(six, 2)) << "half of three racks";
  EXPECT_THAT(*replica_split(six, 3), ElementsAre(3, 1));
  const Interconnect torus = testing::figure_7b();
  EXPECT_FALSE(replica_split(torus, 2)) << "half of a ring is no ring";
  EXPECT_THAT(*replica_split(torus, 4), ElementsAre(4, 1));
}

TEST(PartOfReplica, SharesSwitchesAndServersWithTheOthers) {
  Interconnect whole = flat(
      8, {kGigabyte},
      Aggregation{.slots = 64, .window = 4, .server_hosts = 1, .switch_bandwidth = {kGigabyte}});
  const Interconnect part = part_of_replica(whole, {4});
  EXPECT_EQ(part.levels[0].count, 2u);
  const Aggregation& aggregation = *part.levels[0].aggregation;
  EXPECT_EQ(aggregation.slots, 16u);
  EXPECT_EQ(aggregation.shared_by, 4u);
  EXPECT_EQ(aggregation.switch_bandwidth.value, kGigabyte / 4);
}

TEST(PartOfReplica, HasNoMeasurementsOfTheWhole) {
  Interconnect whole = flat(8, {kGigabyte});
  whole.measured.push_back({.mesh = {8, 1}});
  EXPECT_TRUE(part_of_replica(whole, {2}).measured.empty());
}

// Two replicas: a ring of two sends each gradient once. In racks the groups of four ranks share the
// uplink.
TEST(DataCost, IsOneRingOfAllGradientsOverTheFullestLink) {
  const Mesh mesh{4, 1};
  const Request one_switch = request_on(flat(8, {kGigabyte}), 8, 2);
  const double gradients = trained_per_rank(one_switch.model, mesh) * 2;
  EXPECT_DOUBLE_EQ(data_cost(one_switch, mesh, 2).seconds, gradients / kGigabyte);
  EXPECT_DOUBLE_EQ(data_cost(request_on(racks(), 8, 2), mesh, 2).seconds,
                   4 * gradients / (0.1 * kGigabyte));
  EXPECT_EQ(data_cost(one_switch, mesh, 2).collective, Collective::kRing);
  EXPECT_EQ(data_cost(one_switch, mesh, 1).seconds, 0);
}

TEST(DataCost, OfFullShardingGathersTheWeightsTwiceAndScattersTheGradients) {
  Request request = request_on(flat(8, {kGigabyte}), 8, 2);
  const double copies = data_cost(request, {4, 1}, 2).seconds;
  request.options.fully_shard = true;
  EXPECT_DOUBLE_EQ(data_cost(request, {4, 1}, 2).seconds, 1.5 * copies);
}

TEST(DataCost, OfHalfPrecisionInTheRuntimesRingsIsThatOfFloat32) {
  Request request = request_on(flat(8, {kGigabyte}), 8, 2);
  const double exact = data_cost(request, {4, 1}, 2).seconds;
  request.options.runtime = true;
  EXPECT_DOUBLE_EQ(data_cost(request, {4, 1}, 2).seconds, 2 * exact);
}

// Two racks of timed devices: what a layer needs is gathered while the one before it computes, and
// its gradients are summed while the next computes.
TEST(PlanWithReplicas, HidesWhatTheySendBehindComputation) {
  for (const bool fully_shard : {false, true}) {
    Request request = request_on(flat(2, {kGigabyte}), 8, 2);
    request.model = {.name = "gpt", .hidden = 256, .layers = 20, .heads = 16};
    request.options.fully_shard = fully_shard;
    const auto data_at = [&request](double flops) {
      request.interconnect.device.flops_per_second = flops;
      return plan(request).value().best.data;
    };
    const DataCost exposed = data_at(1e30), hidden = data_at(1e9);
    EXPECT_NEAR(exposed.waited, exposed.seconds, 1e-9);
    EXPECT_DOUBLE_EQ(hidden.seconds, exposed.seconds);
    // The weights of each pass's first layer and the last gradients: 3 of 60 transfers, or 1 of 20.
    EXPECT_NEAR(hidden.waited, hidden.seconds / 20, 1e-3 * hidden.seconds);
    request.options.micro_batch = 1;
    EXPECT_DOUBLE_EQ(data_at(1e9).seconds, exposed.seconds * (fully_shard ? 4 : 1));
  }
}

TEST(PlanWithReplicas, OnTheLinksOfTheMeshGetWhatThatLeaves) {
  Request request = request_on(flat(4, {kGigabyte}), 8, 2);
  request.interconnect.device.flops_per_second = 1e30;
  const Candidate shared = plan(request).value().best;
  EXPECT_NEAR(shared.data.waited, shared.data.seconds, 1e-6 * shared.data.seconds);
}

TEST(PlanWithReplicas, PutsThemOnBothSidesOfTheSlowLink) {
  const Result<Plan> found = plan(request_on(racks(), 64, 0));
  ASSERT_TRUE(found) << found.error().message;
  const Candidate& best = found.value().best;
  EXPECT_GE(best.data.replicas, 2u) << "sums of 64 sequences would cross the slow link";
  // The whole step is that of a replica with its part of the batch, and the gradients' sums.
  Request part = request_on(part_of_replica(racks(), *replica_split(racks(), best.data.replicas)),
                            64 / best.data.replicas, 1);
  const Result<Candidate> alone = evaluate(part, best.mesh);
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_DOUBLE_EQ(best.cost.step_seconds, alone.value().cost.step_seconds + best.data.seconds);
  for (const Candidate& other : found.value().runners_up) {
    EXPECT_GE(other.cost.step_seconds * (1 + 1e-9), best.cost.step_seconds);
    EXPECT_EQ(other.mesh.size() * other.data.replicas, 8u);
  }
}

TEST(PlanWithReplicas, OfOneSequenceHasOne) {
  const Result<Plan> found = plan(request_on(racks(), 1, 0));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found.value().best.data.replicas, 1u);
  EXPECT_THAT(found.value().rejected.front().reasons.front(),
              HasSubstr("2 replicas do not divide the batch of 1"));
}

TEST(PlanWithReplicas, OfAGivenNumberHasOnlyThat) {
  const Result<Plan> found = plan(request_on(racks(), 8, 4));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found.value().best.data.replicas, 4u);
  for (const Candidate& other : found.value().runners_up) EXPECT_EQ(other.data.replicas, 4u);
}

TEST(PlanWithReplicas, ThatShardTheWeightsNeedLessMemory) {
  Request request = request_on(racks(), 8, 2);
  const double copies = plan(request).value().best.memory.total();
  request.options.fully_shard = true;
  const Result<Plan> sharded = plan(request);
  const MemoryPerRank& memory = sharded.value().best.memory;
  EXPECT_LT(memory.total(), copies);
  // Half of all, and the other half of both layers' weights and of one layer's gradients.
  EXPECT_DOUBLE_EQ(memory.gradients, memory.weights * 0.75);
  // A device with memory for the parts but not for copies.
  request.options.device_memory_bytes = (copies + memory.total()) / 2;
  EXPECT_TRUE(plan(request));
  request.options.fully_shard = false;
  EXPECT_THAT(plan(request).error().message, HasSubstr("GB of memory but has"));
}

TEST(PlanWithReplicas, IsRefusedWhereTheModelCannotTell) {
  struct Row {
    const char* what;
    void (*change)(Request&);
    const char* message;
  };
  for (const Row& row :
       {Row{"the paper's equations", [](Request& r) { r.options.mode = CostMode::kPaper; },
            "not in the paper's equations"},
        Row{"a number that does not divide the devices", [](Request& r) { r.options.replicas = 3; },
            "3 replicas cannot share 8 devices"},
        Row{"hosts in another order",
            [](Request& r) { r.interconnect.job_ranks = {4, 5, 6, 7, 0, 1, 2, 3}; },
            "name the hosts in the file's order"},
        Row{"a matrix",
            [](Request& r) {
              r.interconnect.point_to_point =
                  PointToPointMatrix{8, std::vector<BytesPerSecond>(64, {kGigabyte})};
            },
            "point-to-point matrix"}}) {
    Request request = request_on(racks(), 8, 2);
    row.change(request);
    const Result<Plan> found = plan(request);
    ASSERT_FALSE(found) << row.what;
    EXPECT_THAT(found.error().message, HasSubstr(row.message)) << row.what;
  }
}

}  // namespace
}  // namespace atp::planner
