#include "atp/planner/layer_volume.h"

#include <algorithm>

namespace atp::planner {

namespace {

// Splits `sums` all-reduces on dimension 1, each of `elements`, into reduce-scatters and
// all-gathers.
template <class Volume>
void split_sums(double sums, double elements, Accounting accounting, Volume& volume) {
  volume.all_gathered1 += sums * elements;
  volume.all_gathers1 += sums;
  const bool scatters = accounting == Accounting::kFused;
  (scatters ? volume.reduce_scattered1 : volume.all_reduced1) += sums * elements;
  (scatters ? volume.reduce_scatters1 : volume.all_reduces1) += sums;
}

// Adds the sum of the gradients of a parameter that all rows store.
template <class Volume>
void sum_rows(double elements, Volume& volume) {
  volume.all_reduced1 += elements;
  volume.copies_all_reduced1 += elements;
  volume.copies_all_reduces1 += 1;
}

}  // namespace

double kv_copies(const Transformer& model, Mesh mesh) {
  const double kv_heads = model.kv_heads != 0 ? model.kv_heads : model.heads;
  return std::max(1.0, mesh.d1 / kv_heads);
}

std::uint64_t vocabulary_of_row(std::uint64_t vocabulary, std::uint32_t d1) {
  return (vocabulary + d1 - 1) / d1;
}

EndsVolume ends_volume(const Transformer& model, double tokens, Mesh mesh, bool whole_logits,
                       bool sequence_parallel, Accounting accounting) {
  EndsVolume volume;
  if (model.vocabulary == 0) return volume;
  const double narrow = 1.0 * model.hidden / mesh.d2;
  const bool splits_tokens = sequence_parallel && !whole_logits;
  if (mesh.d1 > 1) {
    if (splits_tokens) {
      split_sums(2, tokens * narrow, accounting, volume);
      sum_rows(model.norm_statistics * narrow, volume);
      if (model.positions > 0) sum_rows(model.positions * narrow, volume);
    } else {
      volume.all_reduced1 = 2 * tokens * narrow;
      volume.all_reduces1 = 2;
      if (sequence_parallel) {
        volume.all_gathered1 = 2 * tokens * narrow;
        volume.all_gathers1 = 2;
      }
    }
    if (whole_logits) {
      volume.all_gathered1 +=
          tokens * mesh.d1 * static_cast<double>(vocabulary_of_row(model.vocabulary, mesh.d1));
      volume.all_gathers1 += 1;
    } else {
      volume.loss = 3 * tokens;
      volume.loss_all_reduces = 2;
    }
  }
  if (mesh.d2 > 1) {
    volume.all_reduced2 =
        tokens * static_cast<double>(vocabulary_of_row(model.vocabulary, mesh.d1));
    volume.all_reduces2 = 1;
    volume.norm = 2 * model.norm_statistics * tokens / (splits_tokens ? mesh.d1 : 1);
    volume.norm_all_reduces = model.norm_statistics + 1;
  }
  return volume;
}

void add_recomputed(const Transformer& model, double tokens, Mesh mesh, Accounting accounting,
                    double core_copies, bool whole, LayerVolume& volume) {
  // The inputs of the blocks' products, which are gathered again, are half of what is gathered.
  volume.all_gathered1 *= 1.5;
  volume.all_gathers1 *= 1.5;
  volume.norm *= 1.5;
  volume.norm_all_reduces += 2 * model.norm_statistics * (mesh.d2 > 1 ? 1 : 0);
  if (!whole) return;
  volume.all_reduced1 += (volume.all_reduced1 - volume.copies_all_reduced1) / 2;
  volume.all_reduces1 *= 1.5;
  volume.reduce_scattered1 *= 1.5;
  volume.reduce_scatters1 *= 1.5;
  if (mesh.d2 == 1) return;
  const double per_row = tokens / mesh.d1;
  const auto q = static_cast<double>(model.q_width());
  const double kv = static_cast<double>(model.kv_width()) * kv_copies(model, mesh);
  const bool fused = accounting == Accounting::kFused;
  volume.all_reduced2 += model.first_matrices() * static_cast<double>(model.ffn_width()) * per_row;
  volume.all_reduces2 += 1;
  (fused ? volume.reduce_scattered2 : volume.all_reduced2) +=
      (q + 2 * kv * (fused ? core_copies : 1)) * per_row;
  (fused ? volume.reduce_scatters2 : volume.all_reduces2) += 1;
  volume.all_gathered2 += q * per_row;
  volume.all_gathers2 += 1;
}

LayerVolume layer_volume(const Transformer& model, double tokens, Mesh mesh, Accounting accounting,
                         double core_copies, bool sequence_parallel) {
  LayerVolume volume;
  if (mesh.d1 > 1) {
    const double narrow = 1.0 * model.hidden / mesh.d2;
    if (sequence_parallel) {
      split_sums(4, tokens * narrow, accounting, volume);
      for (int norm = 0; norm < 2; ++norm) sum_rows(model.norm_statistics * narrow, volume);
    } else {
      volume.all_reduced1 = 4 * tokens * narrow;
      volume.all_reduces1 = 4;
    }
    // Keys and values, if several rows store the same heads.
    if (kv_copies(model, mesh) > 1 && accounting != Accounting::kEquation2) {
      for (int matrix = 0; matrix < 2; ++matrix) {
        sum_rows(static_cast<double>(model.kv_width()) * narrow, volume);
      }
    }
  }
  if (mesh.d2 == 1) return volume;
  const double per_row = tokens / mesh.d1;
  const auto q = static_cast<double>(model.q_width());
  const double kv = static_cast<double>(model.kv_width()) * kv_copies(model, mesh);
  const auto one = static_cast<double>(model.ffn_width());
  const double first = model.first_matrices() * one;
  const double sliced = (q + 2 * kv + q) * per_row;
  const double of_core = (q + 2 * kv * core_copies + q) * per_row;
  volume.all_gathers2 = 2;
  switch (accounting) {
    case Accounting::kPlain:
      volume.all_reduced2 = (first + one) * per_row + sliced;
      volume.all_gathered2 = of_core;
      volume.all_reduces2 = 4;
      break;
    case Accounting::kFused:
      volume.all_reduced2 = (first + one) * per_row;
      volume.reduce_scattered2 = volume.all_gathered2 = of_core;
      volume.all_reduces2 = volume.reduce_scatters2 = 2;
      break;
    case Accounting::kEquation2:
      volume.all_reduced2 = 2 * (q + 2 * kv + first) * per_row;
      volume.all_reduces2 = 4;
      break;
  }
  // Two norms per layer. In the forward pass the statistics are reduced one after the other (the
  // mean, then the squared deviations), in the backward pass all at once.
  volume.norm_all_reduces = 2 * (model.norm_statistics + 1);
  volume.norm = 4 * model.norm_statistics * tokens / (sequence_parallel ? mesh.d1 : 1);
  return volume;
}

}  // namespace atp::planner
