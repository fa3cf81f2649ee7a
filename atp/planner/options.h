#pragma once

#include <cstdint>
#include <limits>
#include <optional>

// What to count. By default what the layer sends, by the link-load model.

namespace atp::planner {

enum class CostMode {
  kLinkLoad,      // the load of every link with all groups running at once
  kPaper,         // the paper's equations 2 to 4, with the index rule and the sharing corrected
  kPaperLiteral,  // the equations as printed, to reproduce the paper's numbers
};

enum class Collective {
  kNone,          // the dimension has one rank
  kRing,          // one ring through the whole group; each direction carries half
  kHierarchical,  // reduce-scatter level by level upwards, all-gather downwards
  kInNetwork,     // aggregating switches sum; other levels as in hierarchical
  kGloo,          // torch's own ring, whose reduce-scatter is internally an all-reduce
  kMeasured,      // whatever ran when Interconnect::measured was recorded
};

// What a layer sends on dimension 2 (layer_volume.h).
enum class Volume {
  kExact,      // its all-reduces and all-gathers
  kEquation2,  // all as all-reduces, the paper's 14 h; always used in the paper's modes
};

// What the backward pass computes again instead of keeping it.
enum class Recompute {
  kNone,
  kSelective,  // all but products, the attention core and sums: norms and activation functions
  kFull,       // each layer, from its input
};

struct CollectiveSet {
  bool ring = true;
  bool hierarchical = true;
  bool in_network = true;
  bool gloo = true;  // considered if `ring` is not allowed, or if it was measured

  static constexpr CollectiveSet only(Collective collective) {
    return {collective == Collective::kRing, collective == Collective::kHierarchical,
            collective == Collective::kInNetwork, collective == Collective::kGloo};
  }
  bool operator==(const CollectiveSet&) const = default;
};

struct Options {
  CostMode mode = CostMode::kLinkLoad;

  // Considers only what this project's runtime (atp.tensor_parallel) runs: our ring, Gloo's ring or
  // aggregation, one of them per dimension. Our ring has a real reduce-scatter and uses it if only
  // a slice of a sum is needed; Gloo's is internally a whole sum, and switches have none. All
  // gathers use a ring. Half precision is summed as float32, twice the bytes. Only in link-load
  // mode with exact volumes.
  bool runtime = false;

  // The allowed collectives per dimension (link-load mode; the paper has only rings). Aggregation
  // is considered if a switch within the group's span can aggregate.
  CollectiveSet dimension1;
  CollectiveSet dimension2;

  // Equation 2's volume counts an all-gather as half of a ring's all-reduce. It is too low for
  // grouped queries and for aggregation, and only meant for comparisons with numbers computed that
  // way.
  Volume volume = Volume::kExact;

  // Uses a reduce-scatter instead of an all-reduce and a slice, after the QKV product and in the
  // gather's backward pass: on rings, the 7h of equation 2 become 6h. Never costs more. Only with
  // exact volumes in link-load mode. Absent: wherever the runtime does it.
  std::optional<bool> fused;

  // Adds the norms' all-reduces on dimension 2, which the paper ignores, to the total. They add
  // only 8/h of the volume but four latencies per layer; LayerCost shows them in any case.
  bool count_norm_statistics = false;

  // Parts of the batch whose communication overlaps with computation (§4.1). They move the same
  // bytes with more latencies; the overlap counts if the devices' speed is known.
  std::uint32_t chunks = 1;

  // In paper mode, limits group bandwidths by the bandwidth between two children or, with the
  // explicit matrix, two devices (§3.5). The paper does so in its (8,2) example but not in IC6.
  bool point_to_point_correction = true;

  // Replicates kv heads for a d1 that is a multiple of their number, instead of refusing it.
  bool replicate_kv = true;

  // Splits the attention core over dimension 2 by heads only, never by sequences. Models with their
  // own forward pass (masks, caches) need whole sequences on each rank.
  bool by_heads = false;

  // Every rank gets all logits and computes the whole loss, as models of other libraries do: an
  // all-gather of T V on dimension 1 instead of the loss's sums.
  bool whole_logits = false;

  // Between the blocks the rows share each sequence's tokens (sequence parallelism): an all-reduce
  // on dimension 1 becomes a reduce-scatter and an all-gather. With whole logits this is so inside
  // the layers only. Only with exact volumes.
  bool sequence_parallel = false;
  // Plans with and without it, and keeps what is faster for each mesh; sequence_parallel is then
  // ignored.
  bool searches_sequence_parallel = false;

  // Replicas of the mesh, each on consecutive devices with a part of the batch; 0: as many as take
  // the least time. fully_shard: each holds a part of the weights and gathers them for every layer
  // (FSDP), instead of summing the gradients of copies. `data`: the collectives that they may use.
  std::uint32_t replicas = 1;
  bool fully_shard = false;
  CollectiveSet data;

  // Sequences that a replica runs at once, whose gradients it adds up before the optimizer's step;
  // 0: its whole part of the batch.
  std::uint32_t micro_batch = 0;
  Recompute recompute = Recompute::kNone;

  // Memory: optimizer state per weight (absent: Adam's two moments and, for half precision, a
  // master copy, in float32 at least), and whether attention scores are stored; the runtime's
  // scaled_dot_product_attention does not store them.
  std::optional<double> optimizer_bytes_per_parameter;
  bool stores_attention_scores = false;
  double device_memory_bytes = 0;  // 0: no limit

  // How many further meshes the plan keeps. The default is all, at most 239.
  std::uint32_t runners_up = std::numeric_limits<std::uint32_t>::max();
  // Whether to find what would change the answer, which takes hundreds of further searches.
  bool sensitivities = true;

  bool operator==(const Options&) const = default;
};

// The volume in effect: the paper's modes have only one.
constexpr Volume volume_of(const Options& options) {
  return options.mode == CostMode::kLinkLoad ? options.volume : Volume::kEquation2;
}

const char* to_string(CostMode mode);
const char* to_string(Volume volume);
const char* to_string(Collective collective);

}  // namespace atp::planner
