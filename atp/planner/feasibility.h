#pragma once

#include <optional>
#include <string>
#include <vector>

#include "atp/planner/mesh.h"
#include "atp/planner/model.h"
#include "atp/planner/options.h"

// Whether the matrices and heads of a model can be cut for a mesh. The rules follow from the
// placements of the paper, §3.2.1: heads and the feed-forward width are cut d1 times, the hidden
// width d2 times, and the attention core is spread over dimension 2 by heads or by sequences. A
// vocabulary may be cut unevenly, but every row needs some of it. Nor may a rank need more memory
// than its device has, if that is known. The runtime asks here, too (atp.planner.feasibility), so
// that what is planned can run.

namespace atp::planner {

// How the ranks of a row share the attention core.
enum class CoreSpread {
  kWhole,             // the row has one rank
  kHeads,             // each has its heads, key-value heads among them
  kSequences,         // each has its sequences of the batch
  kHeadsWithSharedKv  // each has its heads, and several the same key-value head
};

// The first of heads, sequences and shared key-value heads that is possible for `batch` sequences
// that go through at once, of a chunk that is; nothing if none is.
std::optional<CoreSpread> core_spread(const Transformer& model, std::uint64_t batch, Mesh mesh);

// The `batch` of these functions: sequences of a chunk, none where sequences are not spread.
std::uint64_t sequences_at_once(const Workload& workload, const Options& options);

// How many ranks of a row have the same key-value head then: each is given keys and values of its
// own, so they are scattered, gathered and stored so many times. 1 but for kHeadsWithSharedKv.
double kv_copies_of_core(const Transformer& model, std::uint64_t batch, Mesh mesh);

struct Feasibility {
  std::vector<std::string> reasons;  // against; empty when the mesh can run the model
  std::vector<std::string> notes;
};

Feasibility feasibility_of(const Transformer& model, const Workload& workload, Mesh mesh,
                           const Options& options);

}  // namespace atp::planner
