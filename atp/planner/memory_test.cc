#include "atp/planner/memory.h"

#include <gtest/gtest.h>

#include "atp/planner/layer_volume.h"

namespace atp::planner {
namespace {

const Transformer kGpt{.hidden = 1024, .layers = 24, .heads = 16};

// s b h * [10/d2 + 18/d1 + 6/(d1 d2)] at N = 8.
TEST(Activations, AreLeastBetweenTheExtremes) {
  EXPECT_DOUBLE_EQ(activation_factor(kGpt, {8, 1}), 13);
  EXPECT_DOUBLE_EQ(activation_factor(kGpt, {4, 2}), 10.25);
  EXPECT_DOUBLE_EQ(activation_factor(kGpt, {2, 4}), 12.25);
  EXPECT_DOUBLE_EQ(activation_factor(kGpt, {1, 8}), 20);
}

TEST(Activations, OfOneDimensionAreMegatrons) {
  for (const std::uint32_t n : {1u, 2u, 4u, 16u}) {
    EXPECT_DOUBLE_EQ(activation_factor(kGpt, {n, 1}), 10 + 24.0 / n);
  }
}

TEST(Memory, WeightsAreCutByBothDimensions) {
  const Workload workload{.batch = 2, .sequence = 512};
  const double parameters = 12.0 * 1024 * 1024 * 24;
  for (const Mesh mesh : {Mesh{8, 1}, Mesh{4, 2}, Mesh{1, 8}}) {
    const MemoryPerRank memory = memory_per_rank(kGpt, workload, mesh, {});
    EXPECT_DOUBLE_EQ(memory.weights, parameters * 2 / 8);
    EXPECT_DOUBLE_EQ(memory.gradients, memory.weights);
    EXPECT_DOUBLE_EQ(memory.optimizer, parameters * 12 / 8);
  }
}

TEST(Memory, AttentionScoresAreFiveBytesPerHeadAndPair) {
  const Workload workload{.batch = 2, .sequence = 512};
  Options options;
  const double stored = memory_per_rank(kGpt, workload, {4, 2}, options).activations;
  options.stores_attention_scores = false;
  const double without = memory_per_rank(kGpt, workload, {4, 2}, options).activations;
  EXPECT_DOUBLE_EQ(stored - without, 24.0 * 5 * 16 * 2 * 512 * 512 / 8);
  EXPECT_DOUBLE_EQ(without, 24.0 * 2 * 512 * 1024 * 10.25);
}

TEST(Memory, CountsTheEmbeddingAndCopiedKvHeads) {
  Transformer model = kGpt;
  model.vocabulary = 50000;
  const Workload workload{.batch = 1, .sequence = 1};
  EXPECT_DOUBLE_EQ(memory_per_rank(model, workload, {8, 1}, {}).weights -
                       memory_per_rank(kGpt, workload, {8, 1}, {}).weights,
                   2.0 * 50000 * 1024 / 8);
  model = kGpt;
  model.kv_heads = 4;
  // Width of kv 256; with eight rows each head is stored twice.
  const double four_rows = memory_per_rank(model, workload, {4, 2}, {}).weights;
  const double eight_rows = memory_per_rank(model, workload, {8, 1}, {}).weights;
  EXPECT_DOUBLE_EQ(eight_rows - four_rows, 24.0 * 2 * 2 * 1024 * 256 / 8);
}

TEST(Volume, IsEquation2s) {
  const LayerVolume volume = layer_volume(kGpt, 100, {4, 2}, false);
  EXPECT_DOUBLE_EQ(volume.all_reduced1, 4 * 100 * 1024 / 2.0);
  EXPECT_DOUBLE_EQ(volume.all_reduced2, 2 * 7 * 100 * 1024 / 4.0);
  EXPECT_EQ(volume.all_reduces1, 4);
  EXPECT_EQ(volume.norm, 8 * 100);
}

TEST(Volume, FusedHalvesThreeQuartersOfAScatter) {
  const LayerVolume volume = layer_volume(kGpt, 100, {4, 2}, true);
  EXPECT_DOUBLE_EQ(volume.all_reduced2 + volume.scattered2 / 2, 2 * 6 * 100 * 1024 / 4.0);
}

}  // namespace
}  // namespace atp::planner
