#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atp/planner/mesh.h"
#include "atp/planner/options.h"

// The result of planning: the mesh, its cost, the reasons, and the alternatives.

namespace atp::planner {

enum class LinkRole {
  kNone,          // nothing is sent
  kUplink,        // a child's link to its switch
  kDirect,        // a link between two children of a full, pairs, ring or torus level
  kServer,        // the link of a parameter server's host
  kSwitchHost,    // the link of the host on which a switch runs
  kPointToPoint,  // an entry of the explicit matrix
  kGroup,         // a group bandwidth of equation 3, or a measured one
};

// The link that determines the time of an all-reduce.
struct Bottleneck {
  LinkRole role = LinkRole::kNone;
  std::size_t level = 0;        // index into Interconnect::levels; meaningless for kPointToPoint
  double groups = 1;            // groups of the dimension that share the link
  double load = 0;              // bytes over it per byte of one rank's tensor, all groups together
  double seconds_per_byte = 0;  // load / bandwidth: seconds per byte of one rank's tensor
  std::string text;             // for people: "uplink of a host (level 1 of 2), shared by 4 groups"
};

// How much longer an operation takes because a part of its tensor is sent all at once.
struct Burst {
  double bytes = 0;  // of a rank's tensor, at most
  double seconds_per_byte = 0;
  double of(double sent, double operations = 1) const {
    return std::min(sent, operations * bytes) * seconds_per_byte;
  }
};

// The time of one operation as a function of a rank's tensor bytes.
struct Rate {
  double seconds_per_byte = 0;
  double seconds = 0;
  Burst burst;
  double of(double bytes) const { return bytes * seconds_per_byte + burst.of(bytes) + seconds; }
};

// One dimension of one mesh on one layout.
struct DimensionCost {
  Collective collective = Collective::kNone;      // for all-reduces
  Collective reduce_scatter = Collective::kNone;  // kNone if the layer has none
  Collective all_gather = Collective::kNone;
  double bytes = 0;              // tensor bytes per rank and layer, reduced or gathered
  double bandwidth_seconds = 0;  // per layer, forward and backward
  double latency_seconds = 0;    // per layer
  double collectives = 0;        // operations per layer
  double fallback_share = 0;     // of fragments, with aggregation
  Rate all_reduce_rate;
  Rate reduce_scatter_rate;  // per byte of the whole tensor
  Rate all_gather_rate;
  Bottleneck bottleneck;
  std::string why;  // "innetwork: 1.9 times as fast as ring, ..."

  double seconds() const { return bandwidth_seconds + latency_seconds; }
};

// Embedding, last norm, head and loss together, forward and backward. All 0 for a model without a
// vocabulary, and with equation 2, which ignores them.
struct EndsCost {
  double bytes1 = 0;  // tensor bytes per rank summed or gathered on dimension 1, loss included
  double bytes2 = 0;  // on dimension 2
  double seconds1 = 0;
  double seconds2 = 0;
  double norm_seconds = 0;  // counted in seconds only with Options::count_norm_statistics
  double seconds = 0;
  Rate logits_rate;  // of gathering whole logits on dimension 1
};

// One training step of one rank: forward, backward, optimizer. All 0 if the devices' speed is
// unknown, and in the paper's modes.
struct StepTime {
  double products = 0;  // seconds of matrix products
  double others = 0;    // seconds of norms, activations, losses and the optimizer
  double sent = 0;      // seconds of collectives, without overlap
  double waited = 0;    // the part of `sent` that is not hidden by computation
  double seconds = 0;   // products + others + waited
};

struct LayerCost {
  DimensionCost dimension1;
  DimensionCost dimension2;
  double norm_seconds = 0;  // counted in seconds only with Options::count_norm_statistics
  double seconds = 0;       // per layer, forward and backward
  EndsCost ends;            // for the whole model, with the layers' collectives
  StepTime step;            // step_time.h
  // What the search minimizes: the time of a step or, if the devices' speed is unknown, of all
  // collectives of layers and ends.
  double step_seconds = 0;
};

// What the replicas of a mesh exchange in a step.
struct DataCost {
  std::uint32_t replicas = 1;
  bool fully_shard = false;
  Collective collective = Collective::kNone;  // that sums gradients
  double bytes = 0;  // tensor bytes per rank: gradients and, if fully sharded, weights twice
  double seconds = 0;
  double gathering = 0;   // of these, the seconds of weights
  std::size_t level = 0;  // of the fullest links
  double waited = 0;      // the part of `seconds` that computation does not hide
};

// Bytes per rank, all layers.
struct MemoryPerRank {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;
  double working = 0;  // the logits and their gradients or, if that is more, those of a layer
  double total() const { return weights + gradients + optimizer + activations + working; }
};

struct Candidate {
  Mesh mesh;
  MeshLayout layout;  // per level, top to bottom; in paper mode the contiguous one
  LayerCost cost;
  MemoryPerRank memory;
  DataCost data;  // `waited` is in cost.step_seconds, not in cost.step
  bool sequence_parallel = false;
  bool measured = false;                // bandwidths come from Interconnect::measured
  std::vector<std::string> infeasible;  // why the model cannot run; empty in a plan
  std::vector<std::string> notes;       // caveats: replicated kv heads, batch scatter
};

// A mesh that cannot run this model, with all reasons.
struct RejectedMesh {
  Mesh mesh;
  std::vector<std::string> reasons;
  std::uint32_t replicas = 1;
};

// A change of the input after which another mesh or collective is best.
struct Sensitivity {
  enum class Quantity { kBandwidth, kLatency, kTokens, kAggregation };
  Quantity quantity = Quantity::kBandwidth;
  std::size_t level = 0;  // for bandwidth and aggregation
  double factor = 1;      // for the quantity (aggregation: none)
  Mesh mesh;              // best after the change
  Collective dimension1 = Collective::kNone;
  Collective dimension2 = Collective::kNone;
  std::string text;  // "with 2.3 times the bandwidth of 'pcie', mesh (8,1) would be best: …"
};

struct Plan {
  Candidate best;
  std::vector<Candidate> runners_up;   // best first, one per mesh
  std::vector<RejectedMesh> rejected;  // larger d1 first
  double seconds_per_step = 0;         // best.cost.step_seconds

  // The best (N, 1), Megatron's tensor parallelism, if feasible, and its time relative to `best` (1
  // if it is the best).
  std::optional<Candidate> one_dimensional;
  double gain_over_one_dimensional = 1;
  bool use_one_dimensional = false;  // "use plain 1-D": best is (N, 1)

  std::vector<Sensitivity> sensitivities;
  std::size_t layouts_searched = 0;
};

const char* to_string(LinkRole role);

}  // namespace atp::planner
