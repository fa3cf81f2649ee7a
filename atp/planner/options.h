#pragma once

#include <cstdint>
#include <limits>
#include <optional>

// What the caller wants counted. By default that is what the layer sends, on the link-load model.

namespace atp::planner {

enum class CostMode {
  kLinkLoad,      // the load of every link by all groups that run at once
  kPaper,         // the paper's equations 2 to 4 with the index rule and the sharing put right
  kPaperLiteral,  // the same as printed, to reproduce the paper's own arithmetic
};

enum class Collective {
  kNone,          // the dimension has one rank
  kRing,          // one ring through the whole group; both directions carry half
  kHierarchical,  // reduce-scatter level by level upwards, all-gather downwards
  kAggregation,   // switches that can aggregate do, the other levels as hierarchical
  kGloo,          // torch's own ring, whose reduce-scatter is an all-reduce inside
  kMeasured,      // whatever ran when Interconnect::measured was taken
};

// What a layer sends on dimension 2 (layer_volume.h).
enum class Volume {
  kExact,      // its all-reduces and all-gathers
  kEquation2,  // all as all-reduces, the paper's 14 h; the paper's modes always do
};

struct CollectiveSet {
  bool ring = true;
  bool hierarchical = true;
  bool aggregation = true;
  bool gloo = true;  // modelled where `ring` is not allowed, and where it was measured

  static constexpr CollectiveSet only(Collective collective) {
    return {collective == Collective::kRing, collective == Collective::kHierarchical,
            collective == Collective::kAggregation, collective == Collective::kGloo};
  }
  bool operator==(const CollectiveSet&) const = default;
};

struct Options {
  CostMode mode = CostMode::kLinkLoad;

  // Only what this project's runtime (atp.tensor_parallel) runs: a ring of ours, Gloo's or
  // aggregation, one of them per dimension. Our ring has a reduce-scatter of its own and takes it
  // where only a slice of a sum is used; Gloo's is a whole sum inside, and switches know none. All
  // gathers go around a ring. Rings sum half precision as float32, which is twice the bytes. Only
  // in link-load mode with exact volumes.
  bool runtime = false;

  // What may run on each dimension (link-load mode; the paper knows rings only). Aggregation is
  // considered where a switch that the group spans can aggregate.
  CollectiveSet dimension1;
  CollectiveSet dimension2;

  // Equation 2's volume takes an all-gather for half an all-reduce of rings, and for grouped
  // queries and aggregation comes out too low: for comparing with numbers that were made so.
  Volume volume = Volume::kExact;

  // Reduce-scatter in place of all-reduce and slice after the QKV product and in the gather's
  // backward pass: on rings, the 7h of equation 2 become 6h. Never dearer. Only with exact volumes
  // in link-load mode. Absent: where the runtime does so by itself.
  std::optional<bool> fused;

  // Adds the norms' all-reduces on dimension 2, which the paper leaves out, to the total. They are
  // 8/h of the volume but four more latencies per layer; LayerCost shows them in any case.
  bool count_norm_statistics = false;

  // Halves or quarters of the batch that overlap with computation (§4.1). They move the same bytes
  // and pay the latencies more often; what they hide counts where the devices' speed is known.
  std::uint32_t chunks = 1;

  // Corrects group bandwidths by what two children, or by the explicit matrix two devices, can
  // exchange in paper mode (§3.5). The paper does so in its (8,2) example and not in IC6.
  bool point_to_point_correction = true;

  // A d1 that is a multiple of the kv heads copies them instead of being refused.
  bool replicate_kv = true;

  // The attention core is spread over dimension 2 by heads only, never by sequences: models that
  // keep a forward pass of their own (masks, caches) run on heads of a rank.
  bool by_heads = false;

  // Memory: states per weight beside weight and gradient (float32 master copy and two moments), and
  // whether attention scores are stored; the runtime's scaled_dot_product_attention does not.
  double optimizer_bytes_per_parameter = 12;
  bool stores_attention_scores = false;
  double device_memory_bytes = 0;  // 0: meshes are not refused for memory

  // How many of the next best meshes the plan keeps: all, of which there are at most 239.
  std::uint32_t runners_up = std::numeric_limits<std::uint32_t>::max();
  // Whether to search what would change the answer: costs some hundred searches more.
  bool sensitivities = true;

  bool operator==(const Options&) const = default;
};

// What is counted: the paper's modes know one volume only.
constexpr Volume volume_of(const Options& options) {
  return options.mode == CostMode::kLinkLoad ? options.volume : Volume::kEquation2;
}

const char* to_string(CostMode mode);
const char* to_string(Volume volume);
const char* to_string(Collective collective);

}  // namespace atp::planner
