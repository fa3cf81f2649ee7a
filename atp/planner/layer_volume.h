#pragma once

#include "atp/planner/mesh.h"
#include "atp/planner/model.h"

// How much one layer reduces on each dimension, forward and backward, and in how many operations.
//
// Dimension 1 has four all-reduces of T h / d2 elements. On dimension 2 (per T/d1; q, kv and f are
// the model's widths, n the first matrices; the paper's GPT has q = kv = h and n f = 4h):
//     QKV product      all-reduce q + 2kv, backward all-gather of the same
//     attention output all-gather q, backward all-reduce q
//     first matrices   all-reduce n f, forward and backward
// Equation 2 costs this as 2C with C = q + 2kv + n f: it forgets the attention output's and counts
// the QKV's all-gather as an all-reduce, and for q = kv the errors cancel: 14 h of all-reduce in
// all. We keep C, so that numbers can be compared. Where only a slice of an all-reduce is used, a
// reduce-scatter does (fused): then half of q + 2kv + q is moved in each of four operations, and
// 14 h become 12 h.

namespace atp::planner {

struct LayerVolume {
  // Elements per rank.
  double all_reduced1 = 0;
  double all_reduced2 = 0;
  double scattered2 = 0;  // reduce-scattered or all-gathered: half the bytes of an all-reduce
  double norm = 0;        // all-reduced on dimension 2 for the norms' statistics

  // Operations; scatters include all-gathers.
  double all_reduces1 = 0;
  double all_reduces2 = 0;
  double scatters2 = 0;
  double norm_all_reduces = 0;
};

LayerVolume layer_volume(const Transformer& model, double tokens, Mesh mesh, bool fused);

// How often each kv head is stored on different rows of the mesh: d1 / kv heads when there are
// fewer heads than rows.
double kv_copies(const Transformer& model, Mesh mesh);

}  // namespace atp::planner
