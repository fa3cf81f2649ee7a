#include "atp/planner/step_time.h"

#include <gtest/gtest.h>

#include "atp/planner/testing_interconnects.h"

namespace atp::planner {
namespace {

using testing::flat;
using testing::request_for;

// A GPT without a vocabulary. Its layers have 72 T h^2 operations in products and, with one token
// per sequence, almost none in attention.
Request timed(std::uint32_t devices, double flops_per_second) {
  Request request = request_for(flat(devices, {1e9}));
  request.model = {.hidden = 1024, .layers = 5, .heads = 16, .bytes_per_element = 4};
  request.workload = {.batch = 1024, .sequence = 1};
  request.options.volume = Volume::kExact;
  request.interconnect.device.flops_per_second = flops_per_second;
  return request;
}

StepTime step_of(const Request& request, Mesh mesh) {
  return evaluate(request, mesh).value().cost.step;
}

TEST(StepTime, IsZeroIfTheSpeedIsUnknown) {
  const Candidate found = evaluate(timed(4, 0), Mesh{2, 2}).value();
  EXPECT_EQ(found.cost.step.seconds, 0);
  EXPECT_DOUBLE_EQ(found.cost.step_seconds, 5 * found.cost.seconds);
}

TEST(StepTime, OfOneDeviceIsTheTimeOfItsProducts) {
  const Request request = timed(1, 1e12);
  const StepTime step = step_of(request, {1, 1});
  EXPECT_DOUBLE_EQ(step.products, 5 * layer_flops(request.model, request.workload) / 1e12);
  EXPECT_NEAR(step.seconds, step.products, 1e-12);
  EXPECT_NEAR(step.waited, 0, 1e-12);
}

TEST(StepTime, CountsHalfOfTheAttentionCoreIfItIsCausal) {
  Request request = timed(1, 1e12);
  request.workload = {.batch = 1, .sequence = 1023};
  const double causal = step_of(request, {1, 1}).products;
  request.model.causal = false;
  const double full = step_of(request, {1, 1}).products;
  EXPECT_DOUBLE_EQ(full, 5 * layer_flops(request.model, request.workload) / 1e12);
  EXPECT_NEAR(full - causal, 5 * 12.0 * 1023 * 511 * 1024 / 1e12, 1e-12);
}

TEST(StepTime, CountsSixOperationsPerWeightOfTheHeadAndToken) {
  Request request = timed(1, 1e12);
  const double without = step_of(request, {1, 1}).products;
  request.model.vocabulary = 50000;
  EXPECT_NEAR(step_of(request, {1, 1}).products - without, 6.0 * 1024 * 1024 * 50000 / 1e12, 1e-9);
}

// Instead of the loss's sums each rank gets all logits: 1000 are 4 x 250, 1002 are padded to 4 x
// 251.
TEST(StepTime, CountsTheGatherOfWholeLogits) {
  for (const std::uint32_t vocabulary : {1000u, 1002u}) {
    Request request = timed(4, 1e30);
    request.model.vocabulary = vocabulary;
    const Candidate split = evaluate(request, Mesh{4, 1}).value();
    const double of_columns = step_of(request, {1, 4}).seconds;
    request.options.whole_logits = true;
    const Candidate whole = evaluate(request, Mesh{4, 1}).value();
    const std::uint32_t of_a_row = (vocabulary + 3) / 4;
    const double logits = 1024.0 * 4 * of_a_row * 4, sums = 3 * 1024.0 * 4;
    EXPECT_DOUBLE_EQ(whole.cost.ends.bytes1 - split.cost.ends.bytes1, logits - sums);
    const double seconds = (logits * 3 / 4 - sums * 2 * 3 / 4) / 1e9;
    EXPECT_NEAR(whole.cost.ends.seconds - split.cost.ends.seconds, seconds, 1e-12);
    EXPECT_NEAR(whole.cost.step.seconds - split.cost.step.seconds, seconds, 1e-9);
    EXPECT_EQ(step_of(request, {1, 4}).seconds, of_columns) << "one row has them all";
  }
}

// Products that take no time cannot hide communication.
TEST(StepTime, OfInfinitelyFastDevicesIsTheTimeOfAllCollectives) {
  const Request request = timed(4, 1e30);
  for (const Mesh mesh : {Mesh{4, 1}, Mesh{2, 2}, Mesh{1, 4}}) {
    const Candidate found = evaluate(request, mesh).value();
    EXPECT_NEAR(found.cost.step.seconds, 5 * (found.cost.seconds + found.cost.norm_seconds), 1e-9);
    EXPECT_NEAR(found.cost.step.waited, found.cost.step.sent, 1e-9);
  }
}

// (4,1) has four sums per layer. The two of the backward pass overlap with computing dW, which
// takes 8 T h^2 / N for the feed-forward block and 6 T h^2 / N for queries, keys and values.
TEST(StepTime, ComputingWeightGradientsHidesTheSumsOfTheBackwardPass) {
  const Request slow = timed(4, 1e9);
  const StepTime step = step_of(slow, {4, 1});
  const double one_sum = step.sent / (5 * 4);
  EXPECT_NEAR(step.waited, 5 * 2 * one_sum, 1e-6 * step.waited)
      << "dW takes longer than a sum, so only the forward pass waits";
}

TEST(StepTime, ChunksHideEachOthersSums) {
  Request request = timed(4, 1e12);
  const double whole = step_of(request, {4, 1}).waited;
  request.options.chunks = 2;
  const StepTime two = step_of(request, {4, 1});
  EXPECT_LT(two.waited, 0.8 * whole);
  request.options.chunks = 4;
  EXPECT_LT(step_of(request, {4, 1}).waited, two.waited);
}

// With chunks, both dimensions sum at once; on one link they wait for each other.
TEST(StepTime, DimensionsOnSeparateLinksHideMore) {
  Request request = timed(4, 1e13);
  request.options.chunks = 4;
  LayerCost cost = evaluate(request, Mesh{2, 2}).value().cost;
  const CostInputs inputs{request.interconnect, request.model, request.options,
                          static_cast<double>(request.workload.tokens()), 1};
  ASSERT_EQ(cost.dimension1.bottleneck.level, cost.dimension2.bottleneck.level);
  const StepTime shared = step_time(inputs, {2, 2}, cost);
  cost.dimension2.bottleneck.level = 1;
  const StepTime apart = step_time(inputs, {2, 2}, cost);
  EXPECT_DOUBLE_EQ(apart.sent, shared.sent);
  EXPECT_LT(apart.waited, 0.9 * shared.waited);
}

// Each dimension has separate links. A measurement equal to the model changes neither the step's
// time nor the best mesh.
TEST(StepTime, IsTheSameIfMeasurementsEqualTheModel) {
  Request request = timed(8, 1e13);
  request.interconnect =
      testing::two_levels(testing::switched("rack", 2, 1), testing::switched("host", 4, 4));
  request.interconnect.device.flops_per_second = 1e13;
  request.options.chunks = 4;
  const Plan modelled = plan(request).value();
  std::vector<Candidate> meshes = modelled.runners_up;
  meshes.push_back(modelled.best);
  for (const Candidate& one : meshes) {
    Request measured = request;
    const auto rate = [](const DimensionCost& cost) -> MeasuredDimension {
      if (cost.collective == Collective::kNone) return {};
      return {.all_reduce = {{1 / cost.all_reduce_rate.seconds_per_byte}}};
    };
    measured.interconnect.measured = {{one.mesh, rate(one.cost.dimension1),
                                       rate(one.cost.dimension2), one.cost.dimension1.collective}};
    if (one.mesh.d1 == 1) {
      measured.interconnect.measured[0].algorithm = one.cost.dimension2.collective;
    }
    EXPECT_EQ(plan(measured).value().best.mesh, one.mesh) << "a measured mesh comes first";
    const Candidate same = evaluate(measured, one.mesh).value();
    EXPECT_TRUE(same.measured);
    EXPECT_NEAR(same.cost.step.seconds, one.cost.step.seconds, 1e-6 * one.cost.step.seconds)
        << one.mesh.d1 << " x " << one.mesh.d2;
  }
}

TEST(StepTime, OfMicroBatchesIsTheSumOfTheirs) {
  Request request = timed(4, 1e12);
  request.workload.batch = 256;
  const Candidate one = evaluate(request, Mesh{2, 2}).value();
  request.workload.batch = 1024;
  request.options.micro_batch = 256;
  const Candidate four = evaluate(request, Mesh{2, 2}).value();
  EXPECT_DOUBLE_EQ(four.cost.step.seconds, 4 * one.cost.step.seconds);
  EXPECT_DOUBLE_EQ(four.cost.step.products, 4 * one.cost.step.products);
  EXPECT_DOUBLE_EQ(four.cost.seconds, one.cost.seconds) << "per layer and micro-batch";
  EXPECT_EQ(four.memory.total(), one.memory.total());
  request.options.micro_batch = 300;
  EXPECT_FALSE(plan(request)) << "300 do not divide 1024";
}

// A second forward pass: a third more products, and what that sends.
TEST(StepTime, OfFullRecomputationHasTwoForwardPasses) {
  for (const bool sequence_parallel : {false, true}) {
    Request request = timed(4, 1e30);
    request.options.sequence_parallel = sequence_parallel;
    for (const Mesh mesh : {Mesh{4, 1}, Mesh{2, 2}, Mesh{1, 4}}) {
      request.workload.sequence = 4;
      request.options.recompute = Recompute::kNone;
      const Candidate once = evaluate(request, mesh).value();
      request.options.recompute = Recompute::kFull;
      const Candidate twice = evaluate(request, mesh).value();
      EXPECT_DOUBLE_EQ(twice.cost.step.products, once.cost.step.products * 4 / 3);
      EXPECT_GT(twice.cost.seconds, 1.3 * once.cost.seconds);
      EXPECT_NEAR(twice.cost.step.seconds, 5 * (twice.cost.seconds + twice.cost.norm_seconds), 1e-9)
          << "the volume is what the simulated step sends";
      EXPECT_LT(twice.memory.activations, once.memory.activations / 4);
    }
  }
}

TEST(StepTime, OfSelectiveRecomputationRepeatsNormsOnly) {
  Request request = timed(4, 1e30);
  request.interconnect.device.memory_bytes_per_second = 1e9;
  const Candidate once = evaluate(request, Mesh{4, 1}).value();
  request.options.recompute = Recompute::kSelective;
  const Candidate twice = evaluate(request, Mesh{4, 1}).value();
  EXPECT_DOUBLE_EQ(twice.cost.step.sent, once.cost.step.sent);
  EXPECT_DOUBLE_EQ(twice.cost.step.products, once.cost.step.products);
  EXPECT_GT(twice.cost.step.others, once.cost.step.others);
  EXPECT_LT(twice.memory.total(), once.memory.total());
}

TEST(StepTime, IncludesMemoryTraffic) {
  Request request = timed(1, 1e12);
  request.interconnect.device.memory_bytes_per_second = 1e9;
  const double others = step_of(request, {1, 1}).others;
  EXPECT_GT(others, 0);
  request.interconnect.device.memory_bytes_per_second = 2e9;
  EXPECT_NEAR(step_of(request, {1, 1}).others, others / 2, 1e-9);
}

TEST(StepTime, DeterminesTheBestMesh) {
  Request request = timed(8, 1e9);
  const Plan found = plan(request).value();
  EXPECT_DOUBLE_EQ(found.seconds_per_step, found.best.cost.step.seconds);
  for (const Candidate& other : found.runners_up) {
    EXPECT_GE(other.cost.step.seconds, found.best.cost.step.seconds * (1 - 1e-9));
  }
}

// On a ring a reduce-scatter and an all-gather take as long as the all-reduce that they replace.
// What remains are the sums of the norms' gradients, two of 2 h values per layer.
TEST(StepTime, OfSequenceParallelismOnARingHasOnlyTheNormsGradientsMore) {
  Request request = timed(4, 1e30);
  request.options.runtime = true;
  request.options.dimension1 = CollectiveSet::only(Collective::kRing);
  const StepTime whole = step_of(request, {4, 1});
  request.options.sequence_parallel = true;
  const StepTime split = step_of(request, {4, 1});
  const double of_norms = 5 * 2 * (2 * 1024 * 4) * 1.5 / 1e9;
  EXPECT_NEAR(split.sent - whole.sent, of_norms, 1e-9);
  EXPECT_NEAR(split.seconds - whole.seconds, of_norms, 1e-9);
}

// A model of transformers has whole sequences outside its layers: nothing changes in embedding and
// head, and two gathers are added, one after the layers and one backward before them.
TEST(StepTime, OfSequenceParallelismWithWholeLogitsGathersAtBothEndsOfTheLayers) {
  Request request = timed(4, 1e30);
  request.options.runtime = request.options.whole_logits = true;
  request.options.dimension1 = CollectiveSet::only(Collective::kRing);
  request.model.vocabulary = 1000;
  request.model.positions = 64;
  const StepTime whole = step_of(request, {4, 1});
  request.options.sequence_parallel = true;
  const StepTime split = step_of(request, {4, 1});
  const double of_norms = 5 * 2 * (2 * 1024 * 4) * 1.5 / 1e9;
  const double gathers = 2 * (1024.0 * 1024 * 4) * 0.75 / 1e9;
  EXPECT_NEAR(split.sent - whole.sent, of_norms + gathers, 1e-9);
  EXPECT_NEAR(split.seconds - whole.seconds, of_norms + gathers, 1e-9);
}

TEST(StepTime, OfSequenceParallelismComputesNormsOfARanksTokensOnly) {
  Request request = timed(4, 1e30);
  request.interconnect.device.memory_bytes_per_second = 1e9;
  const double whole = step_of(request, {4, 1}).others;
  request.options.sequence_parallel = true;
  // 11 values per hidden value and norm, forward and twice backward, for 3/4 of the tokens.
  EXPECT_NEAR(whole - step_of(request, {4, 1}).others,
              5 * 2 * 3 * 11 * 1024.0 * 1024 * 4 * (3.0 / 4) / 1e9, 1e-9);
}

}  // namespace
}  // namespace atp::planner
