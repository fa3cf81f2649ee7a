#pragma once

#include "atp/planner/mesh.h"
#include "atp/planner/model.h"
#include "atp/planner/options.h"
#include "atp/planner/plan.h"

// Memory per rank at the fullest moment of a step, as atp.tensor_parallel uses it; experiments/
// tensor_parallel/memory.py compares it with what training steps allocate. Weights are split over
// both dimensions without duplicates (except for replicated kv heads), and so are embedding and LM
// head. Each activation is split over the dimensions it is sharded on, so neither extreme mesh
// needs the least. Gradients count as held, as in all micro-batches but the first. What a library
// allocates for its own use, such as a GPU's context, is not counted.

namespace atp::planner {

MemoryPerRank memory_per_rank(const Transformer& model, const Workload& workload, Mesh mesh,
                              const Options& options);

// Without biases, norms and position embeddings, which are few.
double parameters_per_rank(const Transformer& model, Mesh mesh);

// All parameters: also biases, position embeddings, and norms, whose weights (and, for a LayerNorm,
// biases) every row holds. Replicas sum the gradients of all of them.
double trained_per_rank(const Transformer& model, Mesh mesh);

// Bytes that a layer keeps for its backward pass, per token, without weights and attention scores.
// core_copies: kv_copies_of_core().
double activation_bytes(const Transformer& model, Mesh mesh, double core_copies = 1,
                        bool sequence_parallel = false);

}  // namespace atp::planner
