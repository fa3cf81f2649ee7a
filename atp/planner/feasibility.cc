#include "atp/planner/feasibility.h"

#include "atp/planner/layer_volume.h"
#include "atp/planner/memory.h"
#include "atp/planner/text.h"

namespace atp::planner {
namespace {

std::string does_not_divide(const char* dimension, std::uint32_t size, const char* what,
                            std::uint64_t number) {
  return std::string(dimension) + " = " + std::to_string(size) + " does not divide the " + what +
         " " + std::to_string(number);
}

void check_kv_heads(const Transformer& model, Mesh mesh, const Options& options,
                    Feasibility& result) {
  const std::uint32_t kv_heads = model.kv_heads != 0 ? model.kv_heads : model.heads;
  // As many as heads: those have the reason already.
  if (kv_heads == model.heads || kv_heads % mesh.d1 == 0) return;
  if (mesh.d1 % kv_heads != 0) {
    result.reasons.push_back(does_not_divide("d1", mesh.d1, "number of key-value heads", kv_heads) +
                             " and is no multiple of it");
  } else if (!options.replicate_kv) {
    result.reasons.push_back("d1 = " + std::to_string(mesh.d1) + " exceeds the " +
                             std::to_string(kv_heads) +
                             " key-value heads, and copying them is not allowed");
  } else if (model.heads % mesh.d1 == 0) {
    result.notes.push_back("each key-value head is stored on " +
                           std::to_string(mesh.d1 / kv_heads) +
                           " rows of the mesh, and their gradients are summed on dimension 1");
  }
}

// The scatter before the attention core (paper §3.2.1): over the heads of a row, or over the
// sequences of the batch.
void check_scatter(const Transformer& model, const Workload& workload, Mesh mesh,
                   const Options& options, Feasibility& result) {
  if (mesh.d2 == 1) return;
  // A reduce-scatter cuts k and v as well, of which there may be fewer heads.
  const bool cuts_kv = options.fused && model.kv_heads != 0;
  const std::uint32_t heads = cuts_kv ? model.kv_heads : model.heads;
  const std::string which = cuts_kv ? "key-value heads" : "heads";
  if (heads % mesh.size() == 0) return;
  if (workload.batch % mesh.d2 == 0) {
    result.notes.push_back("the attention core is spread over dimension 2 by sequences, because " +
                           std::to_string(mesh.size()) + " ranks do not divide the " + which);
    return;
  }
  result.reasons.push_back(
      "the attention core cannot be spread over d2 = " + std::to_string(mesh.d2) + ": neither do " +
      std::to_string(mesh.size()) + " ranks divide the " + which + " (" + std::to_string(heads) +
      ") nor d2 the batch (" + std::to_string(workload.batch) + ")");
}

}  // namespace

Feasibility feasibility_of(const Transformer& model, const Workload& workload, Mesh mesh,
                           const Options& options) {
  Feasibility result;
  const auto require = [&result](const char* dimension, std::uint32_t size, const char* what,
                                 std::uint64_t number) {
    if (number % size != 0) {
      result.reasons.push_back(does_not_divide(dimension, size, what, number));
    }
  };
  require("d1", mesh.d1, "number of heads", model.heads);
  check_kv_heads(model, mesh, options, result);
  require("d1", mesh.d1, "feed-forward width", model.ffn_width());
  require("d2", mesh.d2, "hidden size", model.hidden);
  check_scatter(model, workload, mesh, options, result);
  const double needed = memory_per_rank(model, workload, mesh, options).total();
  if (options.device_memory_bytes > 0 && needed > options.device_memory_bytes) {
    result.reasons.push_back("a rank needs " + number_text(needed / 1e9) +
                             " GB of memory and has " +
                             number_text(options.device_memory_bytes / 1e9) + " GB");
  }
  return result;
}

}  // namespace atp::planner
