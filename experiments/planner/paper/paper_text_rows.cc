#include <fmt/core.h>

#include <utility>

#include "experiments/planner/paper/paper_rows.h"

namespace atp::paper {
namespace {

// The split of q^2 devices that moves the least in a feed-forward block whose 4h are split by d1:
// the minimum of 4/d1 + 1/d2.
std::pair<int, int> best_feed_forward_split(int devices) {
  std::pair<int, int> best{devices, 1};
  double least = 1e9;
  for (int d1 = 1; d1 <= devices; ++d1) {
    if (devices % d1 != 0) continue;
    const double volume = 4.0 / d1 + static_cast<double>(d1) / devices;
    if (volume < least) {
      least = volume;
      best = {d1, devices / d1};
    }
  }
  return best;
}

}  // namespace

std::vector<Row> text_rows() {
  constexpr int kSide = 16;
  const auto [d1, d2] = best_feed_forward_split(kSide * kSide);
  return {
      {"2.1", "the two halves of the second product", "reduce(Y1B1, Y2, B2)", "reduce(Y1B1, Y2B2)",
       "a stray comma"},
      {"5.1", "section that explains the settings", "3.3", "2.1", "a slip"},
      {"2.3", "communication per step", "4Lbsq/B", "4Lbsh e/B",
       "q is a slip for h; e, the bytes of an element, is left out throughout"},
      {"Fig. 6, 3.2.1", "all-reduce f1 and f3 forward", "dimension 1", "dimension 2",
       "the product is [Shard(1), Partial]: partial on dimension 2, as in the paper's equation 2; "
       "f2 and f4 likewise are on dimension 1"},
      {"Fig. 6, 3.2.1", "all-reduce f3 backward", "dimension 2", "dimension 2",
       "agrees; but its forward pass is on the same dimension, so the two are not a conjugate "
       "pair"},
      {"Eq. 2", "volume on dimension 2 per layer, forward and backward", "14h/d1 all-reduced",
       "12h/d1 all-reduced, 4h/d1 all-gathered",
       "agrees on rings, where an all-gather is half an all-reduce, by two errors that cancel: the "
       "gather before the output product is left out and the backward scatter costed as an "
       "all-reduce"},
      {"Eq. 2", "the same with reduce-scatter where only a slice is used", "not considered",
       "8h/d1 all-reduced, 4h/d1 reduce-scattered, 4h/d1 all-gathered",
       "on rings as much as 12h/d1 all-reduced: a seventh less (--fused)"},
      {"Fig. 8, 4.1", "time of chunks that overlap with computation", "measured, no model",
       "their latencies (--chunks)",
       "by equation 2; the chunks together move the same bytes, and each pays its own latencies. "
       "What they hide counts in the time of a step (--device-tflops)"},
      {"4.1, Table 3", "chunk size 2 and 4", "a size", "2 and 4 chunks",
       "the text means the number of chunks that a batch is cut into"},
      {"3.2.1", "Google's layout of q^2 devices", "(q/2, 2q)",
       fmt::format("(2q, q/2); for q = {}: ({}, {})", kSide, d1, d2),
       "4h is cut by d1 in the paper's own convention: 4/d1 + 1/d2 is least at d1 = 4 d2"},
  };
}

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (const auto& section : {table_rows(), text_rows(), matrix_rows(), selection_rows(),
                              scaling_rows(), beyond_rows()}) {
    rows.insert(rows.end(), section.begin(), section.end());
  }
  return rows;
}

}  // namespace atp::paper
