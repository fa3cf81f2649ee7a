#include "atp/planner/memory.h"

#include <gtest/gtest.h>

#include "atp/planner/layer_volume.h"

namespace atp::planner {
namespace {

const Transformer kGpt{.hidden = 1024, .layers = 24, .heads = 16};

// Two norms keep 2 + 4 bytes of h/d2 each, the core q, k, v and its result, W_O's input and the
// feed-forward block 2 bytes of h/d1 and 2 x 4 h/d1 each; the softmax 4 bytes per head.
TEST(Activations, AreThoseThatTheRuntimeKeeps) {
  EXPECT_DOUBLE_EQ(activation_bytes(kGpt, {1, 1}), 1024 * (12 + 6 + 2 + 16) + 4 * 16);
  EXPECT_DOUBLE_EQ(activation_bytes(kGpt, {8, 1}), 1024 * (12 + 24 / 8.0) + 4 * 2);
  // With several columns the core's result is gathered, and its own part kept as well.
  EXPECT_DOUBLE_EQ(activation_bytes(kGpt, {4, 2}), 1024 * (12 / 2.0 + 8 / 8.0 + 18 / 4.0) + 4 * 2);
}

TEST(Activations, InFloat32AreTwiceAsManyButForTheNorms) {
  Transformer model = kGpt;
  model.bytes_per_element = 4;
  EXPECT_DOUBLE_EQ(activation_bytes(model, {1, 1}), 1024 * (16 + 2 * 24) + 4 * 16);
}

TEST(Memory, WeightsAreSplitOverBothDimensions) {
  const Workload workload{.batch = 2, .sequence = 512};
  const double parameters = 12.0 * 1024 * 1024 * 24;
  for (const Mesh mesh : {Mesh{8, 1}, Mesh{4, 2}, Mesh{1, 8}}) {
    const MemoryPerRank memory = memory_per_rank(kGpt, workload, mesh, {});
    const double of_norms = 24 * 4 * 1024.0 / mesh.d2;
    EXPECT_DOUBLE_EQ(memory.weights, parameters * 2 / 8 + 2 * of_norms);
    EXPECT_DOUBLE_EQ(memory.gradients, memory.weights);
    EXPECT_DOUBLE_EQ(memory.optimizer, memory.weights * 6);
  }
}

TEST(Memory, StoredAttentionScoresTakeFiveBytesPerHeadAndPair) {
  const Workload workload{.batch = 2, .sequence = 512};
  Options options;
  const double without = memory_per_rank(kGpt, workload, {4, 2}, options).activations;
  options.stores_attention_scores = true;
  const double stored = memory_per_rank(kGpt, workload, {4, 2}, options).activations;
  EXPECT_DOUBLE_EQ(stored - without, 24.0 * 5 * 16 * 2 * 512 * 512 / 8);
  EXPECT_DOUBLE_EQ(without, 24.0 * 2 * 512 * activation_bytes(kGpt, {4, 2}));
}

TEST(Memory, CountsTheEmbeddingAndReplicatedKvHeads) {
  Transformer model = kGpt;
  model.vocabulary = 50000;
  const Workload workload{.batch = 1, .sequence = 1};
  const double last_norm = 2 * 1024;
  EXPECT_DOUBLE_EQ(memory_per_rank(model, workload, {8, 1}, {}).weights -
                       memory_per_rank(kGpt, workload, {8, 1}, {}).weights,
                   2.0 * (50000 * 1024 / 8 + last_norm));
  model = kGpt;
  model.kv_heads = 4;
  // kv width 256; with eight rows each head is stored twice.
  const double four_rows = memory_per_rank(model, workload, {4, 2}, {}).weights;
  const double eight_rows = memory_per_rank(model, workload, {8, 1}, {}).weights;
  const double half_of_norms = 24.0 * 4 * 1024 / 2;
  EXPECT_DOUBLE_EQ(eight_rows - four_rows, 2 * (24.0 * 2 * 1024 * 256 / 8 + half_of_norms));
}

const Transformer kLlama{.hidden = 8192,
                         .layers = 80,
                         .heads = 64,
                         .kv_heads = 8,
                         .ffn = 28672,
                         .gated = true,
                         .norm_statistics = 1};

// 80 of these layers and two embeddings of 128,256 x 8,192 are the model's 70.6e9.
TEST(Llama3_70b, HasItsParameters) {
  EXPECT_DOUBLE_EQ(layer_parameters(kLlama), 855638016);
  EXPECT_NEAR(80 * layer_parameters(kLlama) + 2 * 128256.0 * 8192, 70.6e9, 0.1e9);
}

TEST(Llama3_8b, HasASeparateHead) {
  Transformer model{.hidden = 4096,
                    .layers = 32,
                    .heads = 32,
                    .kv_heads = 8,
                    .ffn = 14336,
                    .gated = true,
                    .vocabulary = 128256,
                    .tied_head = false};
  const auto parameters = [&model] {
    return memory_per_rank(model, {.batch = 1, .sequence = 1}, {1, 1}, {}).weights / 2;
  };
  EXPECT_NEAR(parameters(), 8.03e9, 1e6);
  model.tied_head = true;
  EXPECT_NEAR(parameters(), 8.03e9 - 128256.0 * 4096, 1e6);
}

// The repeated keys and values are as wide as the queries, and gate, up, the activation's result
// and the product are kept; so are the joined weights of layers with one input.
TEST(Llama3_70b, KeepsFourWideActivationsOfTheGatedBlockAndCopiesOfWeights) {
  const double of_token = 8192 * (12 + 2 * (3 + 1 + 4 * 3.5)) + 4 * 64;
  EXPECT_DOUBLE_EQ(activation_bytes(kLlama, {1, 1}), of_token);
  const double joined = 2.0 * 8192 * (1.25 * 8192 + 2 * 28672);
  EXPECT_DOUBLE_EQ(memory_per_rank(kLlama, {1, 10}, {1, 1}, {}).activations,
                   80 * (10 * of_token + joined));
}

TEST(Llama3_70b, ReducesEightAndAQuarterHiddenWidths) {
  const LayerVolume volume = layer_volume(kLlama, 10, {8, 2}, Accounting::kEquation2);
  EXPECT_DOUBLE_EQ(volume.all_reduced2, 2 * 8.25 * 8192 * 10 / 8);
  EXPECT_DOUBLE_EQ(volume.norm, 4 * 10);
}

TEST(Volume, EqualsEquation2s) {
  const LayerVolume volume = layer_volume(kGpt, 100, {4, 2}, Accounting::kEquation2);
  EXPECT_DOUBLE_EQ(volume.all_reduced1, 4 * 100 * 1024 / 2.0);
  EXPECT_DOUBLE_EQ(volume.all_reduced2, 2 * 7 * 100 * 1024 / 4.0);
  EXPECT_EQ(volume.all_reduces1, 4);
  EXPECT_EQ(volume.norm, 8 * 100);
}

TEST(Volume, IsTwelveHAllReducedAndFourGathered) {
  const LayerVolume volume = layer_volume(kGpt, 100, {4, 2}, Accounting::kPlain);
  EXPECT_DOUBLE_EQ(volume.all_reduced2, 12 * 100 * 1024 / 4.0);
  EXPECT_DOUBLE_EQ(volume.all_gathered2, 4 * 100 * 1024 / 4.0);
  EXPECT_EQ(volume.reduce_scattered2, 0);
}

// The QKV product has 1.25 h, forward and backward, the attention output 1 h, the two first
// matrices 7 h forward, and their product, the next matrix's only input, 3.5 h backward.
TEST(Volume, OfGroupedQueriesExceedsEquation2s) {
  const LayerVolume volume = layer_volume(kLlama, 10, {8, 2}, Accounting::kPlain);
  EXPECT_DOUBLE_EQ(volume.all_reduced2, (1.25 + 1 + 7 + 3.5) * 8192 * 10 / 8);
  EXPECT_DOUBLE_EQ(volume.all_gathered2, (1.25 + 1) * 8192 * 10 / 8);
}

// Sixteen rows, eight key-value heads: gradients of 1/8 h x h are summed for keys and for values.
TEST(Volume, CountsTheGradientsOfReplicatedKeyValueHeads) {
  const LayerVolume volume = layer_volume(kLlama, 10, {16, 2}, Accounting::kPlain);
  const double gradients = 2 * 1024 * 8192 / 2.0;
  EXPECT_DOUBLE_EQ(volume.all_reduced1, 4 * 10 * 8192 / 2.0 + gradients);
  EXPECT_EQ(volume.copies_all_reduces1, 2);
  EXPECT_EQ(layer_volume(kLlama, 10, {8, 2}, Accounting::kPlain).copies_all_reduces1, 0);
}

// Four heads and two key-value heads on (2,2): a row has one key-value head, which both of its
// ranks use. Scatters, gathers and the core's activations contain it twice, whole sums once.
TEST(Volume, CountsKeyValueHeadsSharedByRanksOfARow) {
  const Transformer model{.hidden = 32, .layers = 1, .heads = 4, .kv_heads = 2, .vocabulary = 0};
  const double of_row = 10 * 8 / 2.0;  // ten tokens of a head's width, in two rows
  const LayerVolume plain = layer_volume(model, 10, {2, 2}, Accounting::kPlain, 2);
  EXPECT_DOUBLE_EQ(plain.all_reduced2, (2 * 16 + 8 + 4) * of_row);
  EXPECT_DOUBLE_EQ(plain.all_gathered2, (4 + 2 * 2 * 2 + 4) * of_row);
  const LayerVolume fused = layer_volume(model, 10, {2, 2}, Accounting::kFused, 2);
  EXPECT_DOUBLE_EQ(fused.reduce_scattered2, (4 + 2 * 2 * 2 + 4) * of_row);
  // Queries, keys and values, and keys and values repeated for the queries.
  EXPECT_DOUBLE_EQ(activation_bytes(model, {2, 2}) - activation_bytes(model, {2, 2}, 2),
                   2 * (2 * 32 - 2 * 16) / 4.0);
}

TEST(Volume, OfTheEndsCountsEmbeddingHeadLossAndNorm) {
  Transformer model = kGpt;
  model.vocabulary = 50000;
  const EndsVolume ends = ends_volume(model, 100, {4, 2});
  EXPECT_DOUBLE_EQ(ends.all_reduced1, 2 * 100 * 1024 / 2.0);
  EXPECT_EQ(ends.all_reduces1, 2);
  EXPECT_DOUBLE_EQ(ends.all_reduced2, 100 * 12500);
  EXPECT_EQ(ends.all_reduces2, 1);
  EXPECT_DOUBLE_EQ(ends.loss, 3 * 100);
  EXPECT_DOUBLE_EQ(ends.norm, 2 * 2 * 100);
  EXPECT_EQ(ends_volume(kGpt, 100, {4, 2}).all_reduces1, 0) << "without a vocabulary";
  EXPECT_EQ(ends_volume(model, 100, {8, 1}).all_reduces2, 0);
  EXPECT_EQ(ends_volume(model, 100, {1, 8}).all_reduces1, 0);
}

TEST(Volume, OfAnUnevenlySplitVocabularyIsTheLongerRows) {
  Transformer model = kGpt;
  model.vocabulary = 50257;
  EXPECT_DOUBLE_EQ(ends_volume(model, 100, {4, 2}).all_reduced2, 100 * 12565);
}

TEST(Volume, FusedReduceScattersIfASliceIsUsed) {
  const LayerVolume volume = layer_volume(kGpt, 100, {4, 2}, Accounting::kFused);
  EXPECT_DOUBLE_EQ(volume.all_reduced2, 8 * 100 * 1024 / 4.0);
  EXPECT_DOUBLE_EQ(volume.reduce_scattered2, 4 * 100 * 1024 / 4.0);
  EXPECT_DOUBLE_EQ(volume.all_gathered2, 4 * 100 * 1024 / 4.0);
}

TEST(Parameters, ThatAreTrainedIncludeNormsBiasesAndPositions) {
  const Mesh mesh{4, 2};
  const double h = 1024.0 / 2, weights = parameters_per_rank(kGpt, mesh);
  EXPECT_DOUBLE_EQ(trained_per_rank(kGpt, mesh) - weights, 24 * 4 * h);
  Transformer model = kGpt;
  model.attention_biases = true;
  EXPECT_DOUBLE_EQ(trained_per_rank(model, mesh) - weights, 24 * (4 * h + 3 * 1024 / 4.0 + h));
  model.ffn_biases = true;
  EXPECT_DOUBLE_EQ(trained_per_rank(model, mesh) - weights,
                   24 * (4 * h + 3 * 1024 / 4.0 + h + 4096 / 4.0 + h));
  model = {.hidden = 1024, .layers = 1, .heads = 16, .vocabulary = 4, .positions = 100};
  EXPECT_DOUBLE_EQ(trained_per_rank(model, mesh) - parameters_per_rank(model, mesh),
                   (4 + 2 + 100) * h);
}

TEST(SequenceParallel, KeepsNormalizedValuesOfARanksTokens) {
  EXPECT_DOUBLE_EQ(activation_bytes(kGpt, {8, 1}) - activation_bytes(kGpt, {8, 1}, 1, true),
                   1024 * 2 * 4 * (7.0 / 8));
  EXPECT_DOUBLE_EQ(activation_bytes(kGpt, {1, 8}, 1, true), activation_bytes(kGpt, {1, 8}));
}

// Per token and logit: in half precision the logits and three float32 copies, or in float32 only
// three; but a rank that gets whole logits keeps those as well.
TEST(Logits, AreKeptFourTimesWhileTheLossIsComputed) {
  struct Row {
    std::uint32_t element;
    bool whole;
    double bytes;
  };
  Transformer model = kGpt;
  model.vocabulary = 50257;
  const Workload workload{.batch = 2, .sequence = 512};
  for (const Row& row : {Row{2, false, 14 * 12565.0}, Row{4, false, 12 * 12565.0},
                         Row{2, true, 14 * 50257.0}, Row{4, true, 16 * 50257.0}}) {
    model.bytes_per_element = row.element;
    Options options;
    options.whole_logits = row.whole;
    EXPECT_DOUBLE_EQ(memory_per_rank(model, workload, {4, 2}, options).working,
                     1024 * (256 + row.bytes))
        << row.element << (row.whole ? " whole" : "");
  }
  const double of_layer = 2 * 4096 + 3 * 4 * 1024;
  EXPECT_DOUBLE_EQ(memory_per_rank(kGpt, workload, {1, 1}, {}).working, 1024 * of_layer)
      << "without a vocabulary: a layer's gradients";
}

TEST(SequenceParallel, SplitsEachSumOnDimension1) {
  const double sums = 4 * 100 * 1024 / 2.0, of_norms = 2 * 2 * 1024 / 2.0;
  const LayerVolume fused = layer_volume(kGpt, 100, {4, 2}, Accounting::kFused, 1, true);
  EXPECT_DOUBLE_EQ(fused.reduce_scattered1, sums);
  EXPECT_DOUBLE_EQ(fused.all_gathered1, sums);
  EXPECT_DOUBLE_EQ(fused.all_reduced1, of_norms);
  EXPECT_DOUBLE_EQ(fused.copies_all_reduced1, of_norms);
  EXPECT_EQ(fused.reduce_scatters1, 4);
  EXPECT_EQ(fused.all_gathers1, 4);
  EXPECT_EQ(fused.all_reduces1, 0);
  EXPECT_EQ(fused.copies_all_reduces1, 2);
  const LayerVolume whole = layer_volume(kGpt, 100, {4, 2}, Accounting::kFused);
  EXPECT_DOUBLE_EQ(fused.norm, whole.norm / 4);
  EXPECT_DOUBLE_EQ(fused.all_reduced2, whole.all_reduced2);
  // Without reduce-scatters a slice of each sum is kept.
  const LayerVolume plain = layer_volume(kGpt, 100, {4, 2}, Accounting::kPlain, 1, true);
  EXPECT_DOUBLE_EQ(plain.all_reduced1, sums + of_norms);
  EXPECT_EQ(plain.reduce_scatters1, 0);
  EXPECT_EQ(plain.all_gathers1, 4);
  const LayerVolume one_row = layer_volume(kGpt, 100, {1, 8}, Accounting::kFused, 1, true);
  EXPECT_EQ(one_row.all_gathers1 + one_row.copies_all_reduces1, 0);
}

TEST(SequenceParallel, SplitsTheSumsOfEmbeddingAndHead) {
  Transformer model = kGpt;
  model.vocabulary = 50000;
  model.positions = 64;
  const EndsVolume ends = ends_volume(model, 100, {4, 2}, false, true, Accounting::kFused);
  EXPECT_DOUBLE_EQ(ends.all_gathered1, 2 * 100 * 1024 / 2.0);
  EXPECT_DOUBLE_EQ(ends.reduce_scattered1, 2 * 100 * 1024 / 2.0);
  EXPECT_DOUBLE_EQ(ends.all_reduced1, (2 + 64) * 1024 / 2.0);  // a norm's weights, and positions
  EXPECT_EQ(ends.copies_all_reduces1, 2);
  EXPECT_DOUBLE_EQ(ends.loss, 3 * 100);
  EXPECT_DOUBLE_EQ(ends.norm, 2 * 2 * 100 / 4.0);
  model.positions = 0;
  EXPECT_EQ(ends_volume(model, 100, {4, 2}, false, true).copies_all_reduces1, 1);
}

// Models of transformers have whole sequences there: two gathers of T h/d2 more, nothing summed.
TEST(SequenceParallel, GathersAtBothEndsOfTheLayersIfTheLogitsAreWhole) {
  Transformer model = kGpt;
  model.vocabulary = 50000;
  model.positions = 64;
  const EndsVolume without = ends_volume(model, 100, {4, 2}, true);
  for (const Accounting accounting : {Accounting::kPlain, Accounting::kFused}) {
    const EndsVolume ends = ends_volume(model, 100, {4, 2}, true, true, accounting);
    EXPECT_DOUBLE_EQ(ends.all_gathered1 - without.all_gathered1, 2 * 100 * 1024 / 2.0);
    EXPECT_EQ(ends.all_gathers1, without.all_gathers1 + 2);
    EXPECT_DOUBLE_EQ(ends.all_reduced1, without.all_reduced1);
    EXPECT_EQ(ends.all_reduces1, without.all_reduces1);
    EXPECT_EQ(ends.reduce_scatters1 + ends.copies_all_reduces1, 0);
    EXPECT_DOUBLE_EQ(ends.norm, without.norm);
  }
  EXPECT_EQ(ends_volume(model, 100, {1, 8}, true, true).all_gathers1, 0) << "one row";
}

}  // namespace
}  // namespace atp::planner
