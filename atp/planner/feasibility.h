#pragma once

#include <optional>
#include <string>
#include <vector>

#include "atp/planner/mesh.h"
#include "atp/planner/model.h"
#include "atp/planner/options.h"

// Decides whether a model's matrices and heads can be split on a mesh. The rules follow from the
// placements of the paper, §3.2.1: heads and the feed-forward width are split d1 ways, the hidden
// width d2 ways, and the attention core over dimension 2 by heads or by sequences. The vocabulary
// may be split unevenly, but every row needs some of it. If the device memory is known, a rank must
// fit into it. The runtime uses the same rules (atp.planner.feasibility), so that every plan can
// run.

namespace atp::planner {

// How the ranks of a row share the attention core.
enum class CoreSpread {
  kWhole,             // not split: the row has one rank
  kHeads,             // each rank has its own heads, including key-value heads
  kSequences,         // each rank has its own sequences of the batch
  kHeadsWithSharedKv  // each rank has its own heads; several share a key-value head
};

// The first of heads, sequences and shared key-value heads that is possible for a chunk of `batch`
// sequences; nothing if none is.
std::optional<CoreSpread> core_spread(const Transformer& model, std::uint64_t batch, Mesh mesh);

// What a replica runs at once.
Workload micro_batch_of(const Workload& workload, const Options& options);

// The argument `batch` of these functions: the sequences per chunk, or 0 if sequences are not
// split.
std::uint64_t sequences_at_once(const Workload& workload, const Options& options);

// How many ranks of a row then share a key-value head. Each gets its own copy of keys and values,
// so they are scattered, gathered and stored that many times. 1 except for kHeadsWithSharedKv.
double kv_copies_of_core(const Transformer& model, std::uint64_t batch, Mesh mesh);

struct Feasibility {
  std::vector<std::string> reasons;  // against the mesh; empty if it can run the model
  std::vector<std::string> notes;
};

// Why a device's memory is too small; empty if it is not, or if there is no limit (0).
std::string lacking_memory(double needed, double limit);

Feasibility feasibility_of(const Transformer& model, const Workload& workload, Mesh mesh,
                           const Options& options);

}  // namespace atp::planner
