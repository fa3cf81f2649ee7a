#include "atp/planner/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "atp/planner/communication_matrix.h"
#include "atp/planner/feasibility.h"
#include "atp/planner/testing_interconnects.h"

namespace atp::planner {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::flat;
using ::testing::HasSubstr;
using testing::request_for;

Request small_gpt(std::uint32_t devices) {
  Request request = request_for(flat(devices, gigabytes_per_second(10)));
  request.model = {.hidden = 768, .layers = 12, .heads = 12};
  request.workload = {.batch = 4, .sequence = 1024};
  return request;
}

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
        Refusal{"WorldSizeThatIsNotTheTopologys", [](Request& r) { r.world_size = 8; },
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
        Refusal{"BadInterconnect", [](Request& r) { r.interconnect.levels[0].bandwidth = {0}; },
                "bandwidth of a link must be positive"},
        Refusal{"MemoryForNoMesh", [](Request& r) { r.options.device_memory_bytes = 1e6; },
                "mesh (4, 1): a rank needs"}),
    [](const auto& each) { return each.param.name; });

TEST(Feasibility, MeshesThatDoNotDivideAreRejectedWithReasons) {
  Request request = small_gpt(8);
  const Plan found = plan(request).value();
  ASSERT_EQ(found.rejected.size(), 2u);
  EXPECT_EQ(found.rejected[0].mesh, (Mesh{8, 1}));
  EXPECT_THAT(found.rejected[0].reasons, Contains("d1 = 8 does not divide the number of heads 12"));
  // Eight columns: neither the heads nor a batch of four can be cut.
  EXPECT_EQ(found.rejected[1].mesh, (Mesh{1, 8}));
  EXPECT_THAT(found.rejected[1].reasons,
              ElementsAre(HasSubstr("the attention core cannot be spread over d2 = 8")));
  EXPECT_FALSE(found.one_dimensional.has_value());
}

TEST(Feasibility, ANamedMeshIsCostedAllTheSame) {
  const Candidate candidate = evaluate(small_gpt(8), Mesh{8, 1}).value();
  EXPECT_THAT(candidate.infeasible, Contains(HasSubstr("does not divide")));
  EXPECT_GT(candidate.cost.seconds, 0);
}

TEST(Feasibility, TheScatterFallsBackToSequences) {
  const Candidate candidate = evaluate(small_gpt(8), Mesh{2, 4}).value();
  EXPECT_TRUE(candidate.infeasible.empty());
  EXPECT_THAT(candidate.notes, ElementsAre(HasSubstr("by sequences")));
}

struct Spread {
  const char* name;
  std::uint32_t heads, kv_heads;
  Mesh mesh;
  std::uint64_t batch;
  std::optional<CoreSpread> found;
};

class SpreadOfTheCore : public ::testing::TestWithParam<Spread> {};

TEST_P(SpreadOfTheCore, IsTheFirstThatIsPossible) {
  const Spread& row = GetParam();
  const Transformer model{.hidden = 64, .layers = 1, .heads = row.heads, .kv_heads = row.kv_heads};
  EXPECT_EQ(core_spread(model, row.batch, row.mesh), row.found);
}

INSTANTIATE_TEST_SUITE_P(
    Table, SpreadOfTheCore,
    ::testing::Values(
        Spread{"OneColumnHasItWhole", 8, 8, {8, 1}, 1, CoreSpread::kWhole},
        Spread{"HeadsThatDivide", 8, 8, {4, 2}, 1, CoreSpread::kHeads},
        Spread{"SequencesWhereHeadsDoNot", 12, 12, {2, 4}, 4, CoreSpread::kSequences},
        Spread{"SequencesBeforeSharedKeyValueHeads", 8, 2, {2, 2}, 4, CoreSpread::kSequences},
        Spread{
            "SharedKeyValueHeadsForOneSequence", 8, 2, {2, 2}, 3, CoreSpread::kHeadsWithSharedKv},
        Spread{"ThreeKeyValueHeadsOfARowForTwoColumns", 12, 6, {2, 2}, 1, std::nullopt},
        Spread{"NoneForAnOddBatch", 12, 12, {2, 4}, 3, std::nullopt}),
    [](const auto& each) { return each.param.name; });

TEST(Feasibility, ChunksDecideHowManySequencesGoThroughAtOnce) {
  Request request = small_gpt(8);
  request.options.chunks = 4;  // of a batch of 4: one sequence cannot be shared by four columns
  EXPECT_THAT(evaluate(request, Mesh{2, 4}).value().infeasible,
              ElementsAre(HasSubstr("nor the 1 sequence that go through at once")));
  request.options.chunks = 3;
  EXPECT_THAT(evaluate(request, Mesh{4, 2}).value().infeasible,
              Contains("3 chunks do not divide the batch of 4 sequences"));
}

TEST(Feasibility, EveryRowNeedsSomeOfTheVocabulary) {
  Request request = small_gpt(4);
  request.model.vocabulary = 50257;
  EXPECT_TRUE(evaluate(request, Mesh{4, 1}).value().infeasible.empty());
  request.model.vocabulary = 9;
  EXPECT_TRUE(evaluate(request, Mesh{2, 2}).value().infeasible.empty());
  EXPECT_THAT(evaluate(request, Mesh{4, 1}).value().infeasible,
              ElementsAre("a vocabulary of 9 tokens leaves a row of d1 = 4 without any"));
}

TEST(Feasibility, WidthsAndKvHeads) {
  Request request = small_gpt(8);
  request.model = {.hidden = 1001 * 8, .layers = 1, .heads = 8, .kv_heads = 2, .ffn = 1002};
  const auto reasons = [&](Mesh mesh) { return evaluate(request, mesh).value().infeasible; };
  EXPECT_THAT(reasons({4, 2}), ElementsAre("d1 = 4 does not divide the feed-forward width 1002"));
  request.model.ffn = 1024;
  EXPECT_TRUE(reasons({4, 2}).empty());
  EXPECT_THAT(evaluate(request, Mesh{4, 2}).value().notes,
              Contains(HasSubstr("each key-value head is stored on 2 rows of the mesh")));
  request.options.replicate_kv = false;
  EXPECT_THAT(reasons({4, 2}), ElementsAre(HasSubstr("copying them is not allowed")));
  request.interconnect = flat(3, {1});
  request.model = {.hidden = 768, .layers = 1, .heads = 12, .kv_heads = 4};
  EXPECT_THAT(reasons({3, 1}), ElementsAre("d1 = 3 does not divide the number of key-value heads 4 "
                                           "and is no multiple of it"));
  request.model = {.hidden = 800, .layers = 1, .heads = 8};
  EXPECT_THAT(reasons({1, 3}), Contains("d2 = 3 does not divide the hidden size 800"));
}

TEST(Evaluate, RefusesAMeshOfOtherDevices) {
  EXPECT_THAT(evaluate(small_gpt(8), Mesh{3, 2}).error().message,
              HasSubstr("mesh (3, 2) has 6 ranks, but the interconnect has 8 devices"));
  EXPECT_THAT(evaluate(small_gpt(8), MeshLayout{{4, 1}}).error().message,
              HasSubstr("has 8 children, but its split is 4 x 1"));
  EXPECT_THAT(evaluate(small_gpt(8), MeshLayout{{4, 2}, {1, 1}}).error().message,
              HasSubstr("must split each of the 1 levels, found 2"));
}

TEST(Collectives, AMeshThatNoneCanServeIsRejected) {
  Request request =
      testing::with_collectives(small_gpt(4), CollectiveSet::only(Collective::kAggregation));
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

// The layers alone want (4,2), the wide sum of the logits turns it.
TEST(Plan, TheHeadDecidesForASmallModelOfManyTokens) {
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

// Two racks of four with 1000 and 200 Mbit/s: hierarchical all-reduces want (8,1), the rings that
// the runtime has (2,4), which was measured as the fastest (docs/tensor-parallel.md).
TEST(Runtime, IsPlannedWithWhatItRuns) {
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

// Switches know no halves: slices of whole sums, and gathers around a ring.
TEST(Runtime, HasNoReduceScattersWhereSwitchesSum) {
  Request request =
      request_for(flat(8, gigabytes_per_second(1), Aggregation{.wire_bytes_per_value = 4}));
  request.model.bytes_per_element = 4;
  request.options.volume = Volume::kExact;
  request.options.runtime = true;
  const DimensionCost sums = evaluate(request, Mesh{4, 2}).value().cost.dimension2;
  EXPECT_EQ(sums.collective, Collective::kRing) << "two ranks gain nothing from a switch";
  request.options.dimension2 = CollectiveSet::only(Collective::kAggregation);
  const DimensionCost forced = evaluate(request, Mesh{2, 4}).value().cost.dimension2;
  EXPECT_EQ(forced.collective, Collective::kAggregation);
  EXPECT_EQ(forced.reduce_scatter, Collective::kNone);
  EXPECT_EQ(forced.all_gather, Collective::kRing);
}

// Rings get float32, which is twice the bytes of half precision; gathers keep their own.
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

// Its gradients are summed once for all chunks, everything else once for each.
TEST(Runtime, SumsCopiedKeyValueHeadsOncePerBatch) {
  Request request = request_for(flat(4, gigabytes_per_second(1)));
  request.model = {.hidden = 64, .layers = 1, .heads = 8, .kv_heads = 2};
  request.options.volume = Volume::kExact;
  EXPECT_EQ(evaluate(request, Mesh{4, 1}).value().cost.dimension1.collectives, 4 + 2);
  request.options.chunks = 2;
  EXPECT_EQ(evaluate(request, Mesh{4, 1}).value().cost.dimension1.collectives, 2 * 4 + 2);
}

TEST(Runtime, OfGloosRingsHasNoReduceScatter) {
  Request request = testing::with_collectives(request_for(flat(8, gigabytes_per_second(1))),
                                              CollectiveSet::only(Collective::kGloo));
  request.options.volume = Volume::kExact;
  request.options.runtime = true;
  const DimensionCost sums = evaluate(request, Mesh{2, 4}).value().cost.dimension2;
  EXPECT_EQ(sums.collective, Collective::kGloo);
  EXPECT_EQ(sums.reduce_scatter, Collective::kNone);
}

TEST(Runtime, IsNotCostedByTheEquations) {
  Request request = small_gpt(4);
  request.options.runtime = true;
  request.options.mode = CostMode::kPaper;
  EXPECT_THAT(plan(request).error().message, HasSubstr("in link-load mode with exact volumes"));
}

// What ran is known, and each collective has a latency and a bandwidth of its own.
TEST(Measured, IsPricedByCollectiveAndAlgorithm) {
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

TEST(Measured, OnlyWhatMayRunCounts) {
  Request request = request_for(flat(4, gigabytes_per_second(1)));
  request.interconnect.measured = {
      {{4, 1}, {{gigabytes_per_second(100)}}, {}, Collective::kAggregation},
      {{4, 1}, {{gigabytes_per_second(2)}}, {}, Collective::kRing}};
  const auto found = [&](CollectiveSet allowed) {
    const Request limited = testing::with_collectives(request, allowed);
    return evaluate(limited, Mesh{4, 1}).value();
  };
  EXPECT_EQ(found({}).cost.dimension1.collective, Collective::kAggregation);
  const Candidate ring = found(CollectiveSet::only(Collective::kRing));
  EXPECT_EQ(ring.cost.dimension1.collective, Collective::kRing);
  EXPECT_DOUBLE_EQ(ring.cost.dimension1.bottleneck.seconds_per_byte, 1 / 2e9);
  EXPECT_TRUE(ring.measured);
  EXPECT_FALSE(found(CollectiveSet::only(Collective::kHierarchical)).measured)
      << "hierarchical was not measured, so it is modelled";
}

TEST(Measured, WithoutItsAlgorithmTheRuntimeIsToldSo) {
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
            "a child's link to its switch on level 1 of 2 'node' (switch), shared by 2 groups: it "
            "carries 3 times a rank's tensor at 12.5 GB/s per direction");
  EXPECT_EQ(best.cost.dimension1.why, "hierarchical: ring takes 1.16667 times as long");
}

// Two pairs on PCIe whose bridges join devices 0 with 2 and 1 with 3: the ring in device order
// would cross PCIe on every hop, and the matrix says how fast that is.
TEST(PointToPoint, LimitsWhatTheLevelsPromise) {
  Request request = request_for(flat(4, gigabytes_per_second(50)));
  PointToPointMatrix matrix{4, std::vector<BytesPerSecond>(16, gigabytes_per_second(5))};
  for (const auto& [a, b] : {std::pair{0u, 2u}, {2u, 0u}, {1u, 3u}, {3u, 1u}}) {
    matrix.bandwidth[a * 4 + b] = gigabytes_per_second(50);
  }
  const double unlimited = evaluate(request, Mesh{2, 2}).value().cost.dimension1.seconds();
  request.interconnect.point_to_point = matrix;
  const Candidate candidate = evaluate(request, Mesh{2, 2}).value();
  // Dimension 1 joins 0 with 2 and 1 with 3, dimension 2 neighbours.
  EXPECT_DOUBLE_EQ(candidate.cost.dimension1.seconds(), unlimited);
  EXPECT_EQ(candidate.cost.dimension2.bottleneck.role, LinkRole::kPointToPoint);
  EXPECT_DOUBLE_EQ(candidate.cost.dimension2.bottleneck.seconds_per_byte, 1 / 5e9);
}

// The matrix says one hundredth of what the switch would let pass, in every mode.
Request two_slow_devices() {
  Request request = request_for(flat(2, gigabytes_per_second(100)));
  request.interconnect.point_to_point =
      PointToPointMatrix{2, std::vector<BytesPerSecond>(4, gigabytes_per_second(1))};
  return request;
}

TEST(PointToPoint, CostsTheSameByLinkLoadsAndByTheEquations) {
  Request request = two_slow_devices();
  const LayerCost by_loads = evaluate(request, Mesh{2, 1}).value().cost;
  request.options.mode = CostMode::kPaper;
  const LayerCost by_equations = evaluate(request, Mesh{2, 1}).value().cost;
  EXPECT_DOUBLE_EQ(by_equations.seconds, by_loads.seconds);
  EXPECT_EQ(by_equations.dimension1.bottleneck.role, LinkRole::kPointToPoint);
  request.options.point_to_point_correction = false;
  EXPECT_DOUBLE_EQ(evaluate(request, Mesh{2, 1}).value().cost.seconds, by_loads.seconds / 100);
}

TEST(PointToPoint, LimitsTheRingsOfAContiguousMeshInTheEquations) {
  Request request = request_for(flat(4, gigabytes_per_second(100)), CostMode::kPaper);
  PointToPointMatrix matrix{4, std::vector<BytesPerSecond>(16, gigabytes_per_second(50))};
  matrix.bandwidth[1 * 4 + 3] = gigabytes_per_second(2);
  request.interconnect.point_to_point = matrix;
  // Dimension 1 of (2,2) joins 1 with 3, dimension 2 neighbours; the ring of four never hops so.
  const LayerCost cost = evaluate(request, Mesh{2, 2}).value().cost;
  EXPECT_DOUBLE_EQ(cost.dimension1.bottleneck.seconds_per_byte, 1 / 2e9);
  EXPECT_DOUBLE_EQ(cost.dimension2.bottleneck.seconds_per_byte, 1 / 50e9);
  const LayerCost ring = evaluate(request, Mesh{4, 1}).value().cost;
  EXPECT_DOUBLE_EQ(ring.dimension1.bottleneck.seconds_per_byte, 0.75 / 50e9);
}

TEST(PointToPoint, IsShownInTheCommunicationMatrix) {
  const CommunicationMatrix two = communication_matrix(two_slow_devices().interconnect).value();
  EXPECT_EQ(two.layers[0].at(0, 1), gigabytes_per_second(1));
  EXPECT_EQ(two.layers[0].group, gigabytes_per_second(1));

  Interconnect nodes =
      testing::two_levels(testing::switched("node", 2, 10), testing::switched("gpu", 2, 100));
  PointToPointMatrix matrix{4, std::vector<BytesPerSecond>(16, gigabytes_per_second(3))};
  matrix.bandwidth[2 * 4 + 3] = gigabytes_per_second(2);
  nodes.point_to_point = matrix;
  const CommunicationMatrix found = communication_matrix(nodes).value();
  EXPECT_EQ(found.layers[0].at(0, 1), gigabytes_per_second(10)) << "four pairs at 3 carry more";
  EXPECT_EQ(found.layers[1].at(0, 1), gigabytes_per_second(2)) << "in the second node";
  EXPECT_EQ(found.layers[1].at(1, 0), gigabytes_per_second(3));
  EXPECT_EQ(found.layers[1].group, gigabytes_per_second(2));
}

// Two nodes of two: between nodes every device carries its half only, at a quarter of the rate.
TEST(PointToPoint, LimitsEachDevicesShareOfAHierarchicalAllReduce) {
  Interconnect nodes =
      testing::two_levels(testing::switched("node", 2, 100), testing::switched("gpu", 2, 100));
  PointToPointMatrix matrix{4, std::vector<BytesPerSecond>(16, {1})};
  for (const auto& [a, b] : {std::pair{0u, 2u}, {2u, 0u}, {1u, 3u}, {3u, 1u}}) {
    matrix.bandwidth[a * 4 + b] = {0.25};
  }
  nodes.point_to_point = matrix;
  const auto seconds = all_reduce_seconds(nodes, {{2, 1}, {2, 1}}, Dimension::k1, 1,
                                          CollectiveSet::only(Collective::kHierarchical), 4);
  EXPECT_DOUBLE_EQ(seconds.value(), 0.5 / 0.25);
}

TEST(PointToPoint, LimitsEveryHopOfARingToHalfTheVolumeEachWay) {
  Interconnect network = flat(4, {100});
  network.point_to_point = PointToPointMatrix{4, std::vector<BytesPerSecond>(16, {100})};
  const auto seconds = [&network](std::uint32_t from, std::uint32_t to, double bandwidth) {
    PointToPointMatrix matrix = *network.point_to_point;
    matrix.bandwidth[from * 4 + to] = {bandwidth};
    Interconnect changed = network;
    changed.point_to_point = matrix;
    return all_reduce_seconds(changed, {{4, 1}}, Dimension::k1, 1,
                              CollectiveSet::only(Collective::kRing), 4)
        .value();
  };
  EXPECT_DOUBLE_EQ(seconds(0, 1, 1), 0.75);
  EXPECT_DOUBLE_EQ(seconds(0, 3, 1), 0.75) << "the ring also runs backwards";
  EXPECT_DOUBLE_EQ(seconds(0, 2, 1), 0.015) << "not neighbours";
  EXPECT_DOUBLE_EQ(seconds(0, 1, 0), 0.015) << "0 says nothing";
}

TEST(Ties, AreNotDecidedByRounding) {
  for (int tenths = 1; tenths <= 500; ++tenths) {
    Request request = request_for(flat(28, {tenths / 10.0}));
    request.model.heads = 28;
    request.model.hidden = 28 * 61;
    EXPECT_EQ(plan(request).value().best.mesh, (Mesh{14, 2})) << tenths;
  }
}

// The upper level never limits, so it does not matter which dimension crosses it.
TEST(Ties, OfLayoutsGoToTheOneWithDimension1OnTheUpperLevels) {
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

TEST(Sensitivity, FindsTheRatioAtWhichTheMeshChanges) {
  Request request =
      request_for(testing::two_levels(testing::switched("pcie", 4, 64),
                                      testing::linked("nvlink", 2, LevelKind::kPairs, 600)),
                  CostMode::kPaper);
  request.options.sensitivities = true;
  const Plan found = plan(request).value();
  ASSERT_EQ(found.best.mesh, (Mesh{4, 2}));
  bool has_seen = false;
  for (const Sensitivity& change : found.sensitivities) {
    if (change.quantity != Sensitivity::Quantity::kBandwidth || change.level != 1) continue;
    has_seen = true;
    EXPECT_NEAR(change.factor, 3.5 * 64 / 600, 1e-5);
    EXPECT_EQ(change.mesh, (Mesh{8, 1}));
    EXPECT_THAT(change.text, HasSubstr("times the bandwidth of 'nvlink' mesh (8, 1) is best"));
  }
  EXPECT_TRUE(has_seen);
}

TEST(Sensitivity, SaysWhatAggregationWouldChange) {
  Request request = request_for(flat(8, {1}));
  request.model.bytes_per_element = 4;
  request.options.sensitivities = true;
  const Plan found = plan(request).value();
  ASSERT_EQ(found.sensitivities.size(), 1u);
  EXPECT_EQ(found.sensitivities[0].quantity, Sensitivity::Quantity::kAggregation);
  EXPECT_EQ(found.sensitivities[0].mesh, (Mesh{8, 1}));
  EXPECT_EQ(found.sensitivities[0].text,
            "if the switches of 'network' aggregated int32 values over Ethernet, with servers "
            "enough, mesh (8, 1) is best, with aggregation on dimension 1");
}

TEST(Sensitivity, PcieSwitchesAreNotAskedToAggregate) {
  Request request = request_for(flat(8, {1}));
  request.model.bytes_per_element = 4;
  request.options.sensitivities = true;
  request.interconnect.levels[0].name = "GPU on PCIe";
  EXPECT_TRUE(plan(request).value().sensitivities.empty());
}

// Between the two boxes is the bottleneck: aggregation inside them would save some latency only.
TEST(Sensitivity, AFewLatenciesAreNoReasonForASwitch) {
  Request request = request_for(
      testing::two_levels(testing::switched("box", 2, 100), testing::switched("gpu", 8, 300)));
  request.interconnect.levels[1].latency_s = 2e-6;
  request.model.bytes_per_element = 4;
  request.options.sensitivities = true;
  const auto gain_inside = [&request] {
    const Plan found = plan(request).value();
    for (const Sensitivity& change : found.sensitivities) {
      if (change.quantity == Sensitivity::Quantity::kAggregation && change.level == 1) return true;
    }
    return false;
  };
  EXPECT_FALSE(gain_inside());
  request.interconnect.levels[1].latency_s = 2e-3;
  EXPECT_TRUE(gain_inside()) << "many are";
}

// The packets that this project's switches sum take four bytes for a value.
TEST(Sensitivity, AggregationWouldNotChangeHalfPrecision) {
  Request request = request_for(flat(8, {1}));
  request.model.bytes_per_element = 2;
  request.options.sensitivities = true;
  EXPECT_TRUE(plan(request).value().sensitivities.empty());
}

// (4, 1) moves 3.0 units in 24 latencies, (2, 2) 4.5 units in 18.
TEST(Sensitivity, FewTokensPreferFewSteps) {
  Interconnect network = flat(4, gigabytes_per_second(10));
  network.levels[0].latency_s = 1e-4;
  Request request = request_for(network);
  request.options.sensitivities = true;
  const Plan found = plan(request).value();
  ASSERT_EQ(found.best.mesh, (Mesh{4, 1}));
  const double turn = 6e-4 / (1.5 * testing::layer_unit(request) / 10e9);
  bool has_seen = false;
  for (const Sensitivity& change : found.sensitivities) {
    if (change.quantity != Sensitivity::Quantity::kTokens) continue;
    has_seen = true;
    EXPECT_EQ(change.mesh, (Mesh{2, 2}));
    EXPECT_NEAR(change.factor / turn, 1, 1e-5);
  }
  EXPECT_TRUE(has_seen);
}

}  // namespace
}  // namespace atp::planner
