#pragma once

#include "atp/planner/mesh.h"
#include "atp/planner/model.h"

// How much one layer reduces on each dimension, forward and backward, and in how many operations.
//
// Dimension 1 has four all-reduces of T h / d2 elements, and where rows store the same key-value
// heads, two of h kv / d2 that sum their weights' gradients. On dimension 2 (per T/d1; q, kv and f
// are the model's widths, n the first matrices; the paper's GPT has q = kv = h and n f = 4h):
//     QKV product      all-reduce q + 2kv, backward all-gather of the same
//     attention output all-gather q, backward all-reduce q
//     first matrices   all-reduce n f, backward f: of what the second matrix has as its input
// which for the GPT is 12 h all-reduced and 4 h gathered. Where ranks of a row share key-value
// heads in the core, what is scattered or gathered for it has 2kv once per rank that shares them;
// an all-reduce of which each takes its slice has them once. Where only a slice of an all-reduce is
// used, a reduce-scatter does (fused): 8 h all-reduced, 4 h reduce-scattered, 4 h gathered.
// Equation 2 costs all this as an all-reduce of 2C, C = q + 2kv + n f: it forgets the attention
// output's and counts the QKV's all-gather as an all-reduce. For q = kv the errors cancel, 14 h, as
// long as an all-reduce costs two all-gathers; aggregation's does not, for it costs about one.

namespace atp::planner {

struct LayerVolume {
  // Elements per rank, of the whole tensor also where a rank has or gets a slice only.
  double all_reduced1 = 0;
  double copies_all_reduced1 = 0;  // of all_reduced1
  double all_reduced2 = 0;
  double reduce_scattered2 = 0;
  double all_gathered2 = 0;
  double norm = 0;  // all-reduced on dimension 2 for the norms' statistics

  // Operations.
  double all_reduces1 = 0;
  double copies_all_reduces1 = 0;  // of copied kv heads' gradients: once for all chunks
  double all_reduces2 = 0;
  double reduce_scatters2 = 0;
  double all_gathers2 = 0;
  double norm_all_reduces = 0;
};

enum class Accounting { kPlain, kFused, kEquation2 };

// core_copies: kv_copies_of_core().
LayerVolume layer_volume(const Transformer& model, double tokens, Mesh mesh, Accounting accounting,
                         double core_copies = 1);

// What stands before and behind the layers, forward and backward: embedding, last norm, head, loss.
// The embedding sums T h / d2 on dimension 1, and so does the head's backward pass; the head sums
// T V / d1 on dimension 2; the loss finds the largest logit of each token on dimension 1 and sums
// two values of it. All 0 for a model without a vocabulary.
struct EndsVolume {
  double all_reduced1 = 0;  // elements per rank
  double all_reduced2 = 0;
  double loss = 0;  // values per rank on dimension 1
  double norm = 0;  // values per rank on dimension 2

  double all_reduces1 = 0;  // operations, of the tensors and of the loss
  double all_reduces2 = 0;
  double loss_all_reduces = 0;
  double norm_all_reduces = 0;
};

EndsVolume ends_volume(const Transformer& model, double tokens, Mesh mesh);

// How much of the vocabulary a row of the mesh has. Where d1 does not divide it the last row has
// less, so the others decide.
std::uint64_t vocabulary_of_row(std::uint64_t vocabulary, std::uint32_t d1);

// How often each kv head is stored on different rows of the mesh: d1 / kv heads when there are
// fewer heads than rows.
double kv_copies(const Transformer& model, Mesh mesh);

}  // namespace atp::planner
