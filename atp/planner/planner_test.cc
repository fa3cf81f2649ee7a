#include "atp/planner/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "atp/planner/testing_interconnects.h"

namespace atp::planner {
namespace {

using ::testing::Contains;
using testing::flat;
using ::testing::HasSubstr;
using testing::request_for;
using testing::small_gpt;

struct Refusal {
  const char* name;
  void (*spoil)(Request&);
  const char* message;
};

class RefusedRequest : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedRequest, SaysWhatWasExpectedAndFound) {
  Request request = small_gpt(4);
  ASSERT_TRUE(plan(request).ok());
  GetParam().spoil(request);
  const auto found = plan(request);
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Table, RefusedRequest,
    ::testing::Values(
        Refusal{"WorldSizeOfAnotherTopology", [](Request& r) { r.world_size = 8; },
                "the world size is 8, but the levels of the interconnect multiply to 4"},
        Refusal{"NoHiddenSize", [](Request& r) { r.model.hidden = 0; }, "hidden size"},
        Refusal{"NoLayers", [](Request& r) { r.model.layers = 0; }, "number of layers"},
        Refusal{"NoHeads", [](Request& r) { r.model.heads = 0; }, "number of heads"},
        Refusal{"HeadsThatDoNotDivideTheHiddenSize", [](Request& r) { r.model.heads = 7; },
                "768 is not a multiple of the 7 heads"},
        Refusal{"KvHeadsThatDoNotDivideTheHeads", [](Request& r) { r.model.kv_heads = 5; },
                "12 heads are not a multiple of the 5 key-value heads"},
        Refusal{"NoBatch", [](Request& r) { r.workload.batch = 0; }, "at least 1 sequence"},
        Refusal{"NoTokens", [](Request& r) { r.workload.sequence = 0; }, "at least 1 token"},
        Refusal{"NoChunks", [](Request& r) { r.options.chunks = 0; }, "chunks must be at least 1"},
        Refusal{"FusedByEquation2", [](Request& r) { r.options.fused = true; },
                "fused reduce-scatters are not in equation 2"},
        Refusal{"SequenceParallelByEquation2",
                [](Request& r) { r.options.sequence_parallel = true; },
                "sequence parallelism is not in equation 2"},
        Refusal{"BadInterconnect", [](Request& r) { r.interconnect.levels[0].bandwidth = {0}; },
                "bandwidth of a link must be positive"},
        Refusal{"MemoryForNoMesh", [](Request& r) { r.options.device_memory_bytes = 1e6; },
                "mesh (4,1): a rank needs"}),
    [](const auto& each) { return each.param.name; });

TEST(Evaluate, RefusesAMeshOfAnotherSize) {
  EXPECT_THAT(evaluate(small_gpt(8), Mesh{3, 2}).error().message,
              HasSubstr("mesh (3,2) has 6 ranks, but the interconnect has 8 devices"));
  EXPECT_THAT(evaluate(small_gpt(8), MeshLayout{{4, 1}}).error().message,
              HasSubstr("has 8 children, but its split is 4 x 1"));
  EXPECT_THAT(evaluate(small_gpt(8), MeshLayout{{4, 2}, {1, 1}}).error().message,
              HasSubstr("must split each of the 1 levels, found 2"));
}

TEST(Collectives, AMeshWithoutAPossibleCollectiveIsRejected) {
  Request request =
      testing::with_collectives(small_gpt(4), CollectiveSet::only(Collective::kInNetwork));
  EXPECT_THAT(plan(request).error().message, HasSubstr("no allowed collective can run"));
  EXPECT_THAT(evaluate(request, Mesh{2, 2}).error().message, HasSubstr("no allowed collective"));
  request.options.dimension1.ring = true;
  const Plan found = plan(request).value();
  EXPECT_EQ(found.best.mesh, (Mesh{4, 1}));
  EXPECT_EQ(found.rejected.size(), 2u);
}

TEST(Plan, SaysWhenOneDimensionIsBest) {
  Request request = small_gpt(4);
  const Plan four = plan(request).value();
  EXPECT_TRUE(four.use_one_dimensional);
  EXPECT_EQ(four.gain_over_one_dimensional, 1);
  EXPECT_DOUBLE_EQ(four.seconds_per_step, four.best.cost.seconds * 12);
  request.interconnect = flat(12, gigabytes_per_second(10));
  const Plan twelve = plan(request).value();
  EXPECT_EQ(twelve.best.mesh, (Mesh{6, 2}));
  EXPECT_FALSE(twelve.use_one_dimensional);
  EXPECT_GT(twelve.gain_over_one_dimensional, 1);
  EXPECT_EQ(twelve.one_dimensional->mesh, (Mesh{12, 1}));
}

// The layers alone favour (4,2); the wide sum of the logits changes that.
TEST(Plan, TheHeadDecidesForASmallModelWithManyTokens) {
  Request request = request_for(flat(8, gigabytes_per_second(1)));
  request.model = {.hidden = 2048,  // Llama-3.2-1B
                   .layers = 16,
                   .heads = 32,
                   .kv_heads = 8,
                   .ffn = 8192,
                   .gated = true,
                   .bytes_per_element = 4,
                   .norm_statistics = 1};
  request.options.volume = Volume::kExact;
  request.options =
      testing::with_collectives(request, CollectiveSet::only(Collective::kRing)).options;
  EXPECT_EQ(plan(request).value().best.mesh, (Mesh{4, 2}));
  request.model.vocabulary = 128256;
  const Plan found = plan(request).value();
  EXPECT_EQ(found.best.mesh, (Mesh{8, 1}));
  const double tokens = static_cast<double>(request.workload.tokens());
  // Embedding and head's gradient, and the loss's three values per token.
  EXPECT_DOUBLE_EQ(found.best.cost.ends.bytes1, (2 * tokens * 2048 + 3 * tokens) * 4);
  EXPECT_DOUBLE_EQ(found.seconds_per_step,
                   16 * found.best.cost.seconds + found.best.cost.ends.seconds);
}

// Two racks of four with 1000 and 200 Mbit/s: hierarchical all-reduces favour (8,1), the runtime's
// rings (2,4), which was the fastest in measurements (docs/plan/tensor-parallel.md).
TEST(Runtime, IsPlannedWithItsOwnCollectives) {
  Request request = request_for(testing::two_levels(testing::switched("rack", 2, 0.2 / 8),
                                                    testing::switched("host", 4, 1.0 / 8)));
  request.model = {.hidden = 512, .layers = 1, .heads = 8, .bytes_per_element = 4};
  request.workload = {.batch = 4, .sequence = 256};
  request.options.volume = Volume::kExact;
  EXPECT_EQ(plan(request).value().best.cost.dimension1.collective, Collective::kHierarchical);
  request.options.runtime = true;
  const Candidate best = plan(request).value().best;
  EXPECT_EQ(best.mesh, (Mesh{2, 4}));
  EXPECT_EQ(best.cost.dimension1.collective, Collective::kRing);
  EXPECT_EQ(best.cost.dimension2.reduce_scatter, Collective::kRing);
}

// Switches only do whole sums, from which slices are taken; gathers use a ring.
TEST(Runtime, HasNoReduceScattersIfSwitchesSum) {
  Request request =
      request_for(flat(8, gigabytes_per_second(1), Aggregation{.wire_bytes_per_value = 4}));
  request.model.bytes_per_element = 4;
  request.options.volume = Volume::kExact;
  request.options.runtime = true;
  const DimensionCost sums = evaluate(request, Mesh{4, 2}).value().cost.dimension2;
  EXPECT_EQ(sums.collective, Collective::kRing) << "two ranks gain nothing from a switch";
  request.options.dimension2 = CollectiveSet::only(Collective::kInNetwork);
  const DimensionCost forced = evaluate(request, Mesh{2, 4}).value().cost.dimension2;
  EXPECT_EQ(forced.collective, Collective::kInNetwork);
  EXPECT_EQ(forced.reduce_scatter, Collective::kNone);
  EXPECT_EQ(forced.all_gather, Collective::kRing);
}

// Rings send float32, twice the bytes of half precision; gathers keep their type.
TEST(Runtime, SumsHalfPrecisionAsFloat32OnRings) {
  Request request = request_for(flat(8, gigabytes_per_second(1)));
  request.options.volume = Volume::kExact;
  request.options.runtime = true;
  request.model.vocabulary = 1024;
  request.model.bytes_per_element = 4;
  const LayerCost wide = evaluate(request, Mesh{4, 2}).value().cost;
  request.model.bytes_per_element = 2;
  const LayerCost half = evaluate(request, Mesh{4, 2}).value().cost;
  EXPECT_DOUBLE_EQ(half.dimension1.bytes, wide.dimension1.bytes);
  EXPECT_DOUBLE_EQ(half.ends.bytes2, wide.ends.bytes2);
  // 8 h of 16 h are all-reduced, 4 h reduce-scattered and 4 h gathered.
  EXPECT_DOUBLE_EQ(half.dimension2.bytes, wide.dimension2.bytes * (8 + 4 + 2) / 16);
  request.options.runtime = false;
  EXPECT_DOUBLE_EQ(evaluate(request, Mesh{4, 2}).value().cost.dimension1.bytes,
                   wide.dimension1.bytes / 2);
}

// Their gradients are summed once for all chunks, everything else once per chunk.
TEST(Runtime, SumsReplicatedKeyValueHeadsOncePerBatch) {
  Request request = request_for(flat(4, gigabytes_per_second(1)));
  request.model = {.hidden = 64, .layers = 1, .heads = 8, .kv_heads = 2};
  request.options.volume = Volume::kExact;
  EXPECT_EQ(evaluate(request, Mesh{4, 1}).value().cost.dimension1.collectives, 4 + 2);
  request.options.chunks = 2;
  EXPECT_EQ(evaluate(request, Mesh{4, 1}).value().cost.dimension1.collectives, 2 * 4 + 2);
}

TEST(Runtime, HasNoReduceScatterOnGloosRings) {
  Request request = testing::with_collectives(request_for(flat(8, gigabytes_per_second(1))),
                                              CollectiveSet::only(Collective::kGloo));
  request.options.volume = Volume::kExact;
  request.options.runtime = true;
  const DimensionCost sums = evaluate(request, Mesh{2, 4}).value().cost.dimension2;
  EXPECT_EQ(sums.collective, Collective::kGloo);
  EXPECT_EQ(sums.reduce_scatter, Collective::kNone);
}

TEST(Runtime, IsNotPlannedByTheEquations) {
  Request request = small_gpt(4);
  request.options.runtime = true;
  request.options.mode = CostMode::kPaper;
  EXPECT_THAT(plan(request).error().message,
              HasSubstr("require link-load mode with exact volumes"));
}

// The algorithm is known, and each collective has its own latency and bandwidth.
TEST(Measured, CostsDependOnCollectiveAndAlgorithm) {
  Request request = request_for(flat(4, gigabytes_per_second(1)));
  request.options.volume = Volume::kExact;
  request.options.fused = true;
  request.interconnect.measured = {
      {.mesh = {1, 4},
       .dimension2 = {.all_reduce = {{1e9}, 1e-3},
                      .reduce_scatter = MeasuredCollective{{3e9}, 2e-3},
                      .all_gather = MeasuredCollective{{4e9}, 3e-3}},
       .algorithm = Collective::kRing}};
  const DimensionCost cost = evaluate(request, Mesh{1, 4}).value().cost.dimension2;
  EXPECT_EQ(cost.collective, Collective::kRing);
  const double th = static_cast<double>(request.workload.tokens()) * request.model.hidden;
  EXPECT_DOUBLE_EQ(cost.bandwidth_seconds, 8 * th / 1e9 + 4 * th / 3e9 + 4 * th / 4e9);
  EXPECT_DOUBLE_EQ(cost.latency_seconds, 2 * 1e-3 + 2 * 2e-3 + 2 * 3e-3);
}

TEST(Measured, CountsOnlyIfTheAlgorithmIsAllowed) {
  Request request = request_for(flat(4, gigabytes_per_second(1)));
  request.interconnect.measured = {
      {{4, 1}, {{gigabytes_per_second(100)}}, {}, Collective::kInNetwork},
      {{4, 1}, {{gigabytes_per_second(2)}}, {}, Collective::kRing}};
  const auto found = [&](CollectiveSet allowed) {
    const Request limited = testing::with_collectives(request, allowed);
    return evaluate(limited, Mesh{4, 1}).value();
  };
  EXPECT_EQ(found({}).cost.dimension1.collective, Collective::kInNetwork);
  const Candidate ring = found(CollectiveSet::only(Collective::kRing));
  EXPECT_EQ(ring.cost.dimension1.collective, Collective::kRing);
  EXPECT_DOUBLE_EQ(ring.cost.dimension1.bottleneck.seconds_per_byte, 1 / 2e9);
  EXPECT_TRUE(ring.measured);
  EXPECT_FALSE(found(CollectiveSet::only(Collective::kHierarchical)).measured)
      << "hierarchical was not measured, so it is modelled";
}

TEST(Measured, WithoutItsAlgorithmAddsANote) {
  Request request = request_for(flat(4, gigabytes_per_second(1)));
  request.interconnect.measured = {{{4, 1}, {{gigabytes_per_second(100)}}, {}}};
  request.options.volume = Volume::kExact;
  EXPECT_TRUE(evaluate(request, Mesh{4, 1}).value().notes.empty());
  request.options.runtime = true;
  EXPECT_THAT(evaluate(request, Mesh{4, 1}).value().notes,
              Contains(HasSubstr("does not say which algorithm ran")));
}

TEST(Plan, OneDeviceCostsNothing) {
  const Plan found = plan(small_gpt(1)).value();
  EXPECT_EQ(found.best.mesh, (Mesh{1, 1}));
  EXPECT_EQ(found.best.cost.seconds, 0);
  EXPECT_EQ(found.best.cost.dimension1.bottleneck.text, "nothing is sent");
}

TEST(Plan, NamesTheBottleneckAndTheReason) {
  Request request = request_for(
      testing::two_levels(testing::switched("node", 8, 12.5), testing::switched("gpu", 4, 12)));
  const Candidate best = plan(request).value().best;
  EXPECT_EQ(best.mesh, (Mesh{8, 4}));
  EXPECT_EQ(best.cost.dimension1.bottleneck.role, LinkRole::kUplink);
  EXPECT_EQ(best.cost.dimension1.bottleneck.level, 0u);
  EXPECT_EQ(best.cost.dimension1.bottleneck.text,
            "a child's link to its switch on level 1 of 2, 'node' (switch), shared by 2 groups: it "
            "carries 3 times a rank's tensor at 12.5 GB/s per direction");
  EXPECT_EQ(best.cost.dimension1.why, "hierarchical: ring takes 1.17 times as long");
}

TEST(Ties, AreNotDecidedByRounding) {
  for (int tenths = 1; tenths <= 500; ++tenths) {
    Request request = request_for(flat(28, {tenths / 10.0}));
    request.model.heads = 28;
    request.model.hidden = 28 * 61;
    EXPECT_EQ(plan(request).value().best.mesh, (Mesh{14, 2})) << tenths;
  }
}

// The upper level is never the bottleneck, so it does not matter which dimension crosses it.
TEST(Ties, BetweenLayoutsGoToDimension1OnTheUpperLevels) {
  const Request request = request_for(
      testing::two_levels(testing::switched("node", 2, 1e6), testing::switched("gpu", 2, 1)));
  const double cost = evaluate(request, MeshLayout{{2, 1}, {1, 2}}).value().cost.seconds;
  EXPECT_DOUBLE_EQ(evaluate(request, MeshLayout{{1, 2}, {2, 1}}).value().cost.seconds, cost);
  EXPECT_EQ(evaluate(request, Mesh{2, 2}).value().layout, (MeshLayout{{2, 1}, {1, 2}}));
}

TEST(Ties, GoToTheLargerFirstDimension) {
  // T(14, 2) = T(7, 4) on a flat network of 28.
  Request request = request_for(flat(28, {1}));
  request.model.heads = 28;
  request.model.hidden = 28 * 64;
  const Plan found = plan(request).value();
  EXPECT_EQ(found.best.mesh, (Mesh{14, 2}));
  EXPECT_EQ(found.runners_up[0].mesh, (Mesh{7, 4}));
  EXPECT_NEAR(found.runners_up[0].cost.seconds / found.best.cost.seconds, 1, 1e-12);
}

}  // namespace
}  // namespace atp::planner
