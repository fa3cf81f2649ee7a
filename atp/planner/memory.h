#pragma once

#include "atp/planner/mesh.h"
#include "atp/planner/model.h"
#include "atp/planner/options.h"
#include "atp/planner/plan.h"

// Memory per rank. Weights are split over both dimensions without duplicates (except for replicated
// kv heads). Each activation is split over the dimensions it is sharded on, so neither extreme mesh
// needs the least: for a GPT in half precision the multiples of s b h are
//     10/d2 + 18/d1 + 6/(d1 d2) + 5 a s/(h d1 d2),
// which is Megatron's 10 + 24/N + 5 a s/(h N) at (N, 1). Sequence parallelism splits the inputs of
// the norms and the dropout masks over both dimensions, 6 of the 10; the inputs of the column-first
// products are stored as gathered. The embedding is split over both dimensions, and so is the LM
// head if it is a separate matrix.

namespace atp::planner {

MemoryPerRank memory_per_rank(const Transformer& model, const Workload& workload, Mesh mesh,
                              const Options& options);

// Weights without biases, norms and position embeddings, which are few.
double parameters_per_rank(const Transformer& model, Mesh mesh);

// All parameters: also biases, position embeddings, and norms, whose weights (and, for a LayerNorm,
// biases) every row holds. Replicas sum the gradients of all of them.
double trained_per_rank(const Transformer& model, Mesh mesh);

// The expression above without the attention scores: activation bytes per layer over s b h.
// core_copies: kv_copies_of_core().
double activation_factor(const Transformer& model, Mesh mesh, double core_copies = 1,
                         bool sequence_parallel = false);

}  // namespace atp::planner
