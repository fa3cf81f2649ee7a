#include "atp/planner/feasibility.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "atp/planner/planner.h"
#include "atp/planner/testing_interconnects.h"

namespace atp::planner {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::flat;
using ::testing::HasSubstr;
using testing::small_gpt;

TEST(Feasibility, MeshesThatDoNotDivideAreRejectedWithReasons) {
  Request request = small_gpt(8);
  const Plan found = plan(request).value();
  ASSERT_EQ(found.rejected.size(), 2u);
  EXPECT_EQ(found.rejected[0].mesh, (Mesh{8, 1}));
  EXPECT_THAT(found.rejected[0].reasons, Contains("d1 = 8 does not divide the number of heads 12"));
  // Eight columns: neither the heads nor a batch of four can be cut.
  EXPECT_EQ(found.rejected[1].mesh, (Mesh{1, 8}));
  EXPECT_THAT(found.rejected[1].reasons,
              ElementsAre(HasSubstr("the attention core cannot be split over d2 = 8")));
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

TEST(Feasibility, AModelThatSpreadsHeadsOnlyGetsNoMeshThatNeedsSequences) {
  Request request = small_gpt(8);
  request.options.by_heads = true;
  const Candidate candidate = evaluate(request, Mesh{2, 4}).value();
  EXPECT_THAT(candidate.infeasible,
              ElementsAre(HasSubstr("this model's attention splits by heads only (by_heads)")));
  request = small_gpt(4);
  request.options.by_heads = true;
  EXPECT_TRUE(evaluate(request, Mesh{2, 2}).value().infeasible.empty());
}

TEST(Feasibility, SequenceParallelismNeedsEquallyManyTokensForEachRow) {
  Request request = small_gpt(4);
  request.workload.sequence = 30;
  request.options.volume = Volume::kExact;
  EXPECT_TRUE(evaluate(request, Mesh{4, 1}).value().infeasible.empty());
  request.options.sequence_parallel = true;
  EXPECT_THAT(evaluate(request, Mesh{4, 1}).value().infeasible,
              ElementsAre("d1 = 4 does not divide the number of tokens per sequence 30"));
  EXPECT_TRUE(evaluate(request, Mesh{2, 2}).value().infeasible.empty());
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
        Spread{"OneColumnHasTheWholeCore", 8, 8, {8, 1}, 1, CoreSpread::kWhole},
        Spread{"HeadsThatDivide", 8, 8, {4, 2}, 1, CoreSpread::kHeads},
        Spread{"SequencesIfHeadsDoNotDivide", 12, 12, {2, 4}, 4, CoreSpread::kSequences},
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
              ElementsAre(HasSubstr("nor the 1 sequence per chunk")));
  request.options.chunks = 3;
  EXPECT_THAT(evaluate(request, Mesh{4, 2}).value().infeasible,
              Contains("3 chunks do not divide the batch of 4 sequences"));
}

TEST(Feasibility, EveryRowNeedsSomeOfTheVocabulary) {
  Request request = small_gpt(4);
  request.model.vocabulary = 50257;
  request = small_gpt(4);
  request.options.by_heads = true;
  EXPECT_TRUE(evaluate(request, Mesh{2, 2}).value().infeasible.empty());
  request.model.vocabulary = 9;
  EXPECT_TRUE(evaluate(request, Mesh{2, 2}).value().infeasible.empty());
  EXPECT_THAT(evaluate(request, Mesh{4, 1}).value().infeasible,
              ElementsAre("a vocabulary of 9 tokens leaves a row of d1 = 4 without tokens"));
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
  EXPECT_THAT(reasons({4, 2}), ElementsAre(HasSubstr("replicating them is not allowed")));
  request.interconnect = flat(3, {1});
  request.model = {.hidden = 768, .layers = 1, .heads = 12, .kv_heads = 4};
  EXPECT_THAT(reasons({3, 1}), ElementsAre("d1 = 3 does not divide the number of key-value heads 4 "
                                           "and is not a multiple of it"));
  request.model = {.hidden = 800, .layers = 1, .heads = 8};
  EXPECT_THAT(reasons({1, 3}), Contains("d2 = 3 does not divide the hidden size 800"));
}

}  // namespace
}  // namespace atp::planner
