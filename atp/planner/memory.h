#pragma once

#include "atp/planner/mesh.h"
#include "atp/planner/model.h"
#include "atp/planner/options.h"
#include "atp/planner/plan.h"

// Bytes that a rank keeps. Weights are cut by both dimensions and none is stored twice (copied kv
// heads apart). Of the activations each is cut by the dimensions it is sharded on, so neither an
// extreme mesh nor (N, 1) needs the least: for a GPT in half precision the s b h multiples are
//     10/d2 + 18/d1 + 6/(d1 d2) + 5 a s/(h d1 d2),
// Megatron's 10 + 24/N + 5 a s/(h N) at (N, 1). The embedding is cut by both dimensions, and
// so is the LM head where it is a matrix of its own.

namespace atp::planner {

MemoryPerRank memory_per_rank(const Transformer& model, const Workload& workload, Mesh mesh,
                              const Options& options);

// Weights without biases, norms and positions, of which there are few.
double parameters_per_rank(const Transformer& model, Mesh mesh);

// The bracket above, without the attention scores: activation bytes of one layer over s b h.
// core_copies: kv_copies_of_core().
double activation_factor(const Transformer& model, Mesh mesh, double core_copies = 1);

}  // namespace atp::planner
