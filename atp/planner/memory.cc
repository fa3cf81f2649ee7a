#include "atp/planner/memory.h"

#include <algorithm>

#include "atp/planner/feasibility.h"
#include "atp/planner/layer_volume.h"

namespace atp::planner {
namespace {

double ranks(Mesh mesh) { return static_cast<double>(mesh.size()); }

// The softmax, its dropout mask and the result, per head and pair of tokens.
double attention_scores(const Transformer& model, const Workload& workload, Mesh mesh) {
  const double pairs = static_cast<double>(workload.tokens()) * workload.sequence;
  return 5 * model.heads * pairs / ranks(mesh);
}

bool is_half(const Transformer& model) { return model.bytes_per_element < 4; }

// Statistics and losses are computed in float32 at least.
double wide_bytes(const Transformer& model) { return std::max(4u, model.bytes_per_element); }

// Per token, what a norm normalized and its result, the input of a column-first product.
double norm_bytes(const Transformer& model, Mesh mesh, bool sequence_parallel) {
  const double normal = wide_bytes(model) / (sequence_parallel ? mesh.d1 : 1);
  return (normal + model.bytes_per_element) * model.hidden / mesh.d2;
}

// Layers of one input are multiplied as one matrix, of which the backward pass keeps a copy.
double joined_weights(const Transformer& model, Mesh mesh) {
  if (!model.gated) return 0;
  const double kv = static_cast<double>(model.kv_width()) * kv_copies(model, mesh);
  const double outputs =
      static_cast<double>(model.q_width()) + 2 * kv + 2 * static_cast<double>(model.ffn_width());
  return model.hidden * outputs / ranks(mesh);
}

// Per token, in the backward pass of one layer, beyond what that pass has freed: the gradients
// around the activation function, and those of the residual.
double gradient_bytes(const Transformer& model, Mesh mesh) {
  const double wide = (model.gated ? 2 : 1) * static_cast<double>(model.ffn_width());
  // Half precision is summed as float32: a product with its rounding, and the sum.
  const bool sums_halves = is_half(model) && mesh.d2 > 1;
  const double bytes = model.bytes_per_element + (sums_halves ? 2 * wide_bytes(model) : 0);
  return bytes * wide / mesh.d1 + 3 * wide_bytes(model) * model.hidden / mesh.d2;
}

// Per token, when the loss's backward pass begins: three wide copies (probabilities, their gradient
// and one in between), the model's own logits unless they are a row's in float32, which are among
// these, and the loss's values, numbers and masks.
double logit_bytes(const Transformer& model, Mesh mesh, const Options& options) {
  if (model.vocabulary == 0) return 0;
  const bool whole = options.whole_logits;
  const auto of_row = static_cast<double>(vocabulary_of_row(model.vocabulary, mesh.d1));
  const double copies =
      3 * wide_bytes(model) + (whole || is_half(model) ? model.bytes_per_element : 0);
  return 256 + copies * (whole ? model.vocabulary : of_row);
}

}  // namespace

double parameters_per_rank(const Transformer& model, Mesh mesh) {
  const double h = model.hidden;
  const auto kv = static_cast<double>(model.kv_width());
  const double copied = 2 * h * kv * (kv_copies(model, mesh) - 1);
  const double layers = model.layers * (layer_parameters(model) + copied);
  const auto rows = static_cast<double>(vocabulary_of_row(model.vocabulary, mesh.d1));
  const double embeddings = (model.tied_head ? 1 : 2) * h * rows / mesh.d2;
  return layers / ranks(mesh) + embeddings;
}

double trained_per_rank(const Transformer& model, Mesh mesh) {
  const double narrow = 1.0 * model.hidden / mesh.d2;
  const auto q = static_cast<double>(model.q_width());
  const double kv = static_cast<double>(model.kv_width()) * kv_copies(model, mesh);
  const double wide = model.first_matrices() * static_cast<double>(model.ffn_width());
  double of_layer = 2 * model.norm_statistics * narrow;
  if (model.attention_biases) of_layer += (q + 2 * kv) / mesh.d1 + narrow;
  if (model.ffn_biases) of_layer += wide / mesh.d1 + narrow;
  double few = model.layers * of_layer;
  // The last norm and the positions belong to the ends, which a layer alone does not have.
  if (model.vocabulary > 0) few += (model.norm_statistics + model.positions) * narrow;
  return parameters_per_rank(model, mesh) + few;
}

double activation_bytes(const Transformer& model, Mesh mesh, double core_copies,
                        bool sequence_parallel) {
  const double e = model.bytes_per_element, n = ranks(mesh);
  const auto q = static_cast<double>(model.q_width());
  const double kv = static_cast<double>(model.kv_width()) * kv_copies(model, mesh) * core_copies;
  const auto ffn = static_cast<double>(model.ffn_width());
  const double norms = 2 * norm_bytes(model, mesh, sequence_parallel);
  // The core's operands, its result and the softmax's scales, and the result of the whole row.
  // Keys and values are repeated for grouped queries; rotated queries and keys are new.
  const bool repeats = kv < q, rotates = model.gated;
  double core = q + 2 * kv + (repeats ? 2 * q : 0);
  if (rotates) core = repeats ? std::max(3 * q, 2 * q + 3 * kv) : 2 * q + 3 * kv;
  core = (core + (mesh.d2 > 1 ? q : 0)) / n;
  const double scales = 4.0 * model.heads / n;
  // Inputs of the activation function and of the second product.
  const double feed_forward = (model.gated ? 4 : 2) * ffn / mesh.d1;
  return norms + e * (core + q / mesh.d1 + feed_forward) + scales;
}

// Of one layer, for all tokens of a micro-batch.
double kept_bytes(const Transformer& model, const Workload& micro, Mesh mesh,
                  const Options& options, double core_copies) {
  double kept = static_cast<double>(micro.tokens()) *
                activation_bytes(model, mesh, core_copies, options.sequence_parallel);
  const double e = model.bytes_per_element;
  if (options.stores_attention_scores) kept += attention_scores(model, micro, mesh) * e / 2;
  return kept + joined_weights(model, mesh) * e;
}

// The same if the backward pass computes again what it can: only the inputs of norms, of the core,
// of W_O and of the activation function remain, or of the layer.
double kept_of_recomputed(const Transformer& model, const Workload& micro, Mesh mesh,
                          const Options& options, double core_copies) {
  const double residual = 1.0 * model.hidden / mesh.d2 / (options.sequence_parallel ? mesh.d1 : 1);
  double values = residual;
  if (options.recompute == Recompute::kSelective) {
    const auto q = static_cast<double>(model.q_width());
    const double kv = static_cast<double>(model.kv_width()) * kv_copies(model, mesh) * core_copies;
    const double wide = model.first_matrices() * static_cast<double>(model.ffn_width());
    values += residual + (q + 2 * kv + q) / ranks(mesh) + (q + wide) / mesh.d1;
  }
  return static_cast<double>(micro.tokens()) * values * model.bytes_per_element;
}

MemoryPerRank memory_per_rank(const Transformer& model, const Workload& workload, Mesh mesh,
                              const Options& options) {
  MemoryPerRank memory;
  const double parameters = trained_per_rank(model, mesh);
  const double e = model.bytes_per_element;
  memory.weights = parameters * e;
  memory.gradients = memory.weights;
  memory.optimizer =
      parameters * options.optimizer_bytes_per_parameter.value_or(is_half(model) ? 12 : 2 * e);
  const double core_copies = kv_copies_of_core(model, sequences_at_once(workload, options), mesh);
  const Workload micro = micro_batch_of(workload, options);
  const auto tokens = static_cast<double>(micro.tokens());
  const double whole = kept_bytes(model, micro, mesh, options, core_copies);
  const double of_layer = options.recompute == Recompute::kNone
                              ? whole
                              : kept_of_recomputed(model, micro, mesh, options, core_copies);
  memory.activations = model.layers * of_layer;
  if (model.vocabulary > 0) {
    const bool splits_tokens = options.sequence_parallel && !options.whole_logits;
    memory.activations += tokens * norm_bytes(model, mesh, splits_tokens);
  }
  // A layer that is computed again is whole while its backward pass runs.
  const double of_backward = tokens * gradient_bytes(model, mesh) + whole - of_layer;
  memory.working = std::max(tokens * logit_bytes(model, mesh, options), of_backward);
  return memory;
}

}  // namespace atp::planner
