#include "atp/planner/memory.h"

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

double activation_factor(const Transformer& model, Mesh mesh, double core_copies,
                         bool sequence_parallel) {
  const double h = model.hidden;
  const double q = static_cast<double>(model.q_width()) / h;
  const double kv = static_cast<double>(model.kv_width()) * kv_copies(model, mesh) / h;
  const double ffn = static_cast<double>(model.ffn_width()) / h;
  // Inputs of the norms and the dropout masks, and inputs of the two column-first products: [R,
  // S(1)].
  const double between = 6, products = 4;
  const double narrow = products + between / (sequence_parallel ? mesh.d1 : 1);
  // Inputs of the row-first products and of the activation function: [S(1), R].
  const double wide = 2 * q + 2 * (model.first_matrices() + 1) * ffn;
  const double core = 2 * (q + 2 * kv * core_copies);
  return narrow / mesh.d2 + wide / mesh.d1 + core / ranks(mesh);
}

MemoryPerRank memory_per_rank(const Transformer& model, const Workload& workload, Mesh mesh,
                              const Options& options) {
  MemoryPerRank memory;
  const double parameters = parameters_per_rank(model, mesh);
  memory.weights = parameters * model.bytes_per_element;
  memory.gradients = memory.weights;
  memory.optimizer = parameters * options.optimizer_bytes_per_parameter;
  const double core_copies = kv_copies_of_core(model, sequences_at_once(workload, options), mesh);
  double of_layer = static_cast<double>(workload.tokens()) * model.hidden *
                    activation_factor(model, mesh, core_copies, options.sequence_parallel);
  if (options.stores_attention_scores) of_layer += attention_scores(model, workload, mesh);
  // The factors are bytes at two bytes per element.
  memory.activations = model.layers * of_layer * model.bytes_per_element / 2;
  return memory;
}

}  // namespace atp::planner
