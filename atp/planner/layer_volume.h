#pragma once

#include "atp/planner/mesh.h"
#include "atp/planner/model.h"

// How much one layer reduces on each dimension, forward and backward, in how many operations.
//
// Dimension 1 has four all-reduces of T h / d2 elements and, if rows store the same key-value
// heads, two of h kv / d2 for the gradients of their weights. Dimension 2 has, per T/d1 (q, kv and
// f are the model's widths, n the number of first matrices; the paper's GPT has q = kv = h and n f
// = 4h):
//     QKV product      all-reduce q + 2kv, backward all-gather of the same
//     attention output all-gather q, backward all-reduce q
//     first matrices   all-reduce n f, backward f, the input of the second matrix
// For the GPT that is 12 h all-reduced and 4 h gathered. If ranks of a row share key-value heads in
// the core, a scatter or gather for it contains 2kv once per sharing rank, but an all-reduce from
// which each takes its slice contains it once. If only a slice of an all-reduce is needed, a
// reduce-scatter suffices (fused): 8 h all-reduced, 4 h reduce-scattered, 4 h gathered. Equation 2
// costs all of this as an all-reduce of 2C, C = q + 2kv + n f: it omits the attention output's and
// counts the QKV's all-gather as an all-reduce. For q = kv the errors cancel (14 h) if an
// all-reduce costs two all-gathers; with aggregation it costs about one.
//
// With sequence parallelism the rows share the tokens between the blocks. The four all-reduces on
// dimension 1 become as many reduce-scatters (all-reduces of which a slice is kept, if the
// collective has none) and all-gathers. A row's norms see only its tokens, so there are 1/d1
// as many statistics, and the gradients of the norms' weights, h/d2 for each statistic, are summed
// on dimension 1.

namespace atp::planner {

struct LayerVolume {
  // Elements per rank: all of the tensor's, even if a rank has or gets only a slice.
  double all_reduced1 = 0;
  // Included in all_reduced1: the gradients of what several rows store, kv heads and norms.
  double copies_all_reduced1 = 0;
  double reduce_scattered1 = 0;
  double all_gathered1 = 0;
  double all_reduced2 = 0;
  double reduce_scattered2 = 0;
  double all_gathered2 = 0;
  double norm = 0;  // all-reduced on dimension 2 for the norms' statistics

  // Operations.
  double all_reduces1 = 0;
  double copies_all_reduces1 = 0;  // not in all_reduces1: once for all chunks
  double reduce_scatters1 = 0;
  double all_gathers1 = 0;
  double all_reduces2 = 0;
  double reduce_scatters2 = 0;
  double all_gathers2 = 0;
  double norm_all_reduces = 0;
};

enum class Accounting { kPlain, kFused, kEquation2 };

// core_copies: kv_copies_of_core().
LayerVolume layer_volume(const Transformer& model, double tokens, Mesh mesh, Accounting accounting,
                         double core_copies = 1, bool sequence_parallel = false);

// Adds what the backward pass sends once more if it computes a whole layer again, which is what the
// forward pass sends, or only its norms.
void add_recomputed(const Transformer& model, double tokens, Mesh mesh, Accounting accounting,
                    double core_copies, bool whole, LayerVolume& volume);

// The volume of the parts before and after the layers, forward and backward: embedding, last norm,
// head, loss. The embedding sums T h / d2 on dimension 1, and so does the head's backward pass. The
// head sums T V / d1 on dimension 2. The loss reduces the maximum logit and sums two values per
// token on dimension 1; with whole logits, these are gathered on dimension 1 instead, padded to
// equal parts. With sequence parallelism the embedding scatters its sum and gathers its gradient,
// the head does the opposite, and the gradients of the last norm's weights and of the positions are
// summed on dimension 1. With whole logits as well, the model's own code keeps whole sequences
// outside the layers: their output is gathered, and so is the gradient of their input. All 0 for a
// model without a vocabulary.
struct EndsVolume {
  double all_reduced1 = 0;         // elements per rank
  double copies_all_reduced1 = 0;  // included in all_reduced1
  double all_reduced2 = 0;
  double reduce_scattered1 = 0;
  double all_gathered1 = 0;
  double loss = 0;  // values per rank on dimension 1
  double norm = 0;  // values per rank on dimension 2

  double all_reduces1 = 0;         // operations, for the tensors and the loss
  double copies_all_reduces1 = 0;  // not in all_reduces1: once for all chunks
  double all_reduces2 = 0;
  double reduce_scatters1 = 0;
  double all_gathers1 = 0;
  double loss_all_reduces = 0;
  double norm_all_reduces = 0;
};

EndsVolume ends_volume(const Transformer& model, double tokens, Mesh mesh,
                       bool whole_logits = false, bool sequence_parallel = false,
                       Accounting accounting = Accounting::kPlain);

// The part of the vocabulary on a row of the mesh. If d1 does not divide it, the last row has less,
// and the others determine the time.
std::uint64_t vocabulary_of_row(std::uint64_t vocabulary, std::uint32_t d1);

// The number of rows that store each kv head: d1 / kv heads if there are fewer heads than rows.
double kv_copies(const Transformer& model, Mesh mesh);

}  // namespace atp::planner
