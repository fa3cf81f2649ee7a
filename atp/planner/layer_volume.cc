#include "atp/planner/layer_volume.h"

#include <algorithm>

namespace atp::planner {

double kv_copies(const Transformer& model, Mesh mesh) {
  const double kv_heads = model.kv_heads != 0 ? model.kv_heads : model.heads;
  return std::max(1.0, mesh.d1 / kv_heads);
}

LayerVolume layer_volume(const Transformer& model, double tokens, Mesh mesh,
                         Accounting accounting) {
  LayerVolume volume;
  if (mesh.d1 > 1) {
    volume.all_reduced1 = 4 * tokens * model.hidden / mesh.d2;
    volume.all_reduces1 = 4;
    // Keys and values, and of rows that store the same heads.
    if (kv_copies(model, mesh) > 1 && accounting != Accounting::kEquation2) {
      volume.all_reduced1 += 2 * static_cast<double>(model.kv_width()) * model.hidden / mesh.d2;
      volume.all_reduces1 += 2;
    }
  }
  if (mesh.d2 == 1) return volume;
  const double per_row = tokens / mesh.d1;
  const auto q = static_cast<double>(model.q_width());
  const double kv = static_cast<double>(model.kv_width()) * kv_copies(model, mesh);
  const auto one = static_cast<double>(model.ffn_width());
  const double first = model.first_matrices() * one;
  const double sliced = (q + 2 * kv + q) * per_row;
  volume.all_gathers2 = 2;
  switch (accounting) {
    case Accounting::kPlain:
      volume.all_reduced2 = (first + one) * per_row + sliced;
      volume.all_gathered2 = sliced;
      volume.all_reduces2 = 4;
      break;
    case Accounting::kFused:
      volume.all_reduced2 = (first + one) * per_row;
      volume.reduce_scattered2 = volume.all_gathered2 = sliced;
      volume.all_reduces2 = volume.reduce_scatters2 = 2;
      break;
    case Accounting::kEquation2:
      volume.all_reduced2 = 2 * (q + 2 * kv + first) * per_row;
      volume.all_reduces2 = 4;
      break;
  }
  // Two norms, forward and backward.
  volume.norm_all_reduces = 4;
  volume.norm = 4 * model.norm_statistics * tokens;
  return volume;
}

}  // namespace atp::planner
