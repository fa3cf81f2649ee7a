#include "atp/planner/feasibility.h"

#include <algorithm>

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
  // If there are as many as query heads, the reason is already listed for those.
  if (kv_heads == model.heads || kv_heads % mesh.d1 == 0) return;
  if (mesh.d1 % kv_heads != 0) {
    result.reasons.push_back(does_not_divide("d1", mesh.d1, "number of key-value heads", kv_heads) +
                             " and is not a multiple of it");
  } else if (!options.replicate_kv) {
    result.reasons.push_back("d1 = " + std::to_string(mesh.d1) + " exceeds the " +
                             std::to_string(kv_heads) +
                             " key-value heads, and replicating them is not allowed");
  } else if (model.heads % mesh.d1 == 0) {
    result.notes.push_back("each key-value head is stored on " +
                           std::to_string(mesh.d1 / kv_heads) +
                           " rows of the mesh, and their gradients are summed on dimension 1");
  }
}

std::string counted(std::uint64_t number, const char* noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

// Checks the scatter before the attention core (paper §3.2.1): over a row's heads, or over a
// chunk's sequences.
void check_scatter(const Transformer& model, const Workload& workload, const Options& options,
                   Mesh mesh, Feasibility& result) {
  const std::uint64_t batch = sequences_at_once(workload, options);
  const auto spread = core_spread(model, batch, mesh);
  const std::uint32_t kv_heads = model.kv_heads != 0 ? model.kv_heads : model.heads;
  const std::uint32_t heads_of_row = model.heads / mesh.d1;
  const std::uint32_t kv_of_row = std::max(1u, kv_heads / mesh.d1);
  if (!spread) {
    result.reasons.push_back(
        "the attention core cannot be split over d2 = " + std::to_string(mesh.d2) +
        ": it divides neither the " + counted(heads_of_row, "head") + " of a row with its " +
        counted(kv_of_row, "key-value head") +
        (options.by_heads ? ", and this model's attention splits by heads only (by_heads)"
                          : " nor the " + counted(batch, "sequence") + " per chunk"));
  } else if (*spread == CoreSpread::kSequences) {
    result.notes.push_back(
        "the attention core is split over dimension 2 by sequences, because d2 does not divide "
        "the " +
        counted(heads_of_row, "head") + " of a row with its " +
        counted(kv_of_row, "key-value head"));
  } else if (*spread == CoreSpread::kHeadsWithSharedKv) {
    result.notes.push_back("ranks of a row share key-value heads in the attention core");
  }
}

}  // namespace

std::optional<CoreSpread> core_spread(const Transformer& model, std::uint64_t batch, Mesh mesh) {
  if (mesh.d2 == 1) return CoreSpread::kWhole;
  const std::uint32_t kv_heads = model.kv_heads != 0 ? model.kv_heads : model.heads;
  const std::uint32_t heads_of_row = model.heads / mesh.d1;
  const std::uint32_t kv_of_row = std::max(1u, kv_heads / mesh.d1);
  const bool cuts_heads = heads_of_row > 0 && heads_of_row % mesh.d2 == 0;
  if (cuts_heads && kv_of_row % mesh.d2 == 0) return CoreSpread::kHeads;
  if (batch > 0 && batch % mesh.d2 == 0) return CoreSpread::kSequences;
  if (cuts_heads && mesh.d2 % kv_of_row == 0) return CoreSpread::kHeadsWithSharedKv;
  return std::nullopt;
}

Workload micro_batch_of(const Workload& workload, const Options& options) {
  return {options.micro_batch == 0 ? workload.batch : options.micro_batch, workload.sequence};
}

std::uint64_t sequences_at_once(const Workload& workload, const Options& options) {
  return options.by_heads ? 0 : micro_batch_of(workload, options).batch / options.chunks;
}

double kv_copies_of_core(const Transformer& model, std::uint64_t batch, Mesh mesh) {
  if (core_spread(model, batch, mesh) != CoreSpread::kHeadsWithSharedKv) return 1;
  const std::uint32_t copies = mesh.d2 / std::max(1u, model.kv_heads / mesh.d1);
  return copies;
}

std::string lacking_memory(double needed, double limit) {
  if (limit == 0 || needed <= limit) return {};
  return "a rank needs " + number_text(needed / 1e9) + " GB of memory but has " +
         number_text(limit / 1e9) + " GB";
}

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
  if (options.sequence_parallel) {
    require("d1", mesh.d1, "number of tokens per sequence", workload.sequence);
  }
  const Workload micro = micro_batch_of(workload, options);
  if (workload.batch % micro.batch != 0) {
    result.reasons.push_back("micro-batches of " + std::to_string(micro.batch) +
                             " do not divide the batch of " + counted(workload.batch, "sequence"));
  }
  if (micro.batch % options.chunks != 0) {
    result.reasons.push_back(std::to_string(options.chunks) + " chunks do not divide the " +
                             (options.micro_batch == 0 ? "batch of " : "micro-batch of ") +
                             counted(micro.batch, "sequence"));
  }
  if (model.heads % mesh.d1 == 0) {
    check_scatter(model, workload, options, mesh, result);
  }
  const std::uint64_t of_row = vocabulary_of_row(model.vocabulary, mesh.d1);
  if (model.vocabulary > 0 && (mesh.d1 - 1) * of_row >= model.vocabulary) {
    result.reasons.push_back("a vocabulary of " + std::to_string(model.vocabulary) +
                             " tokens leaves a row of d1 = " + std::to_string(mesh.d1) +
                             " without tokens");
  }
  std::string why = lacking_memory(memory_per_rank(model, workload, mesh, options).total(),
                                   options.device_memory_bytes);
  if (!why.empty()) result.reasons.push_back(std::move(why));
  return result;
}

}  // namespace atp::planner
