#include "atp/cli/plan/plan_inputs.h"

#include <fmt/core.h>

#include <algorithm>

#include "atp/cli/command/command.h"
#include "atp/config/interconnect/interconnect_file.h"
#include "atp/config/model_file.h"
#include "atp/config/site/job_placement.h"
#include "atp/config/text/words.h"

namespace atp {
namespace {

using planner::CollectiveSet;
using planner::CostMode;
using planner::Transformer;

constexpr std::uint32_t kMax = 1u << 30;

void add_count(const Command& command, const char* name, std::uint32_t& value, const char* help) {
  command.add_option(name, value, help).in_range(1u, kMax).type_name("N");
}

void add_model_options(const Command& command, PlanInputs& inputs) {
  command
      .add_option("--model", inputs.model_file,
                  "Hugging Face config.json of a gpt2 or llama model; or use the options below")
      .type_name("FILE");
  add_count(command, "--hidden", inputs.hidden, "Hidden width of the model, instead of a file");
  add_count(command, "--layers", inputs.layers, "Number of layers, with --hidden");
  add_count(command, "--heads", inputs.heads, "Number of attention heads, with --hidden");
  add_count(command, "--kv-heads", inputs.kv_heads,
            "Number of key-value heads (default: same as --heads)");
  add_count(command, "--ffn", inputs.ffn, "Feed-forward width (default: 4 times hidden)");
  command.add_flag("--gated", inputs.gated, "The feed-forward block has a gate, as in llama");
  command.add_flag("--full-attention", inputs.full_attention,
                   "Each token attends to the whole sequence (default: causal attention)");
  command
      .add_option("--element-bytes", inputs.element_bytes,
                  "Bytes per activation (default: from the model file, else 2)")
      .one_of({1u, 2u, 4u, 8u})
      .type_name("N");
  command.add_option("--batch", inputs.batch, "Sequences per step")
      .in_range(1u, kMax)
      .type_name("N")
      .show_default();
  command.add_option("--sequence", inputs.sequence, "Tokens per sequence")
      .in_range(1u, kMax)
      .type_name("N")
      .show_default();
}

void add_cost_options(const Command& command, PlanInputs& inputs) {
  command
      .add_option("--mode", inputs.mode,
                  "Cost model. linkload: the load of every link with all groups active at once; "
                  "paper: equations 2 to 4 of the paper \"ATP: Adaptive Tensor Parallelism for "
                  "Foundation Models\", with the index rule and the sharing corrected")
      .one_of({"linkload", "paper"})
      .type_name("MODE")
      .show_default();
  command.add_flag("--literal", inputs.literal, "With --mode paper: use the equations as printed");
  command.add_flag(
      "--uncorrected", inputs.uncorrected,
      "With --mode paper: use the bandwidth of a group even if two neighbours in it have less, as "
      "the paper does for its torus of 16 devices (Fig. 12)");
  command
      .add_option("--collectives", inputs.collectives,
                  "Allowed collectives: ring, hierarchical, innetwork, gloo (default: all)")
      .split_at(',')
      .one_of({"ring", "hierarchical", "innetwork", "gloo"})
      .type_name("LIST");
  command
      .add_option("--volume", inputs.volume,
                  "Communication volume. exact: a layer's all-reduces and all-gathers (default); "
                  "equation2: all as all-reduces, as in --mode paper")
      .one_of({"exact", "equation2"})
      .type_name("VOLUME");
  command.add_flag("--fused", inputs.fused,
                   "Use a reduce-scatter where only a slice of an all-reduce is needed");
  command.add_flag(
      "--beyond-runtime", inputs.beyond_runtime,
      "Also consider what atp.tensor_parallel cannot run: hierarchical sums, or half precision");
  command.add_flag("--by-heads", inputs.by_heads,
                   "Split attention by heads only, as models of the transformers library require");
  command.add_flag("--whole-logits", inputs.whole_logits,
                   "Every rank gets all logits, as with models of the transformers library");
  command.add_flag("--sequence-parallel", inputs.sequence_parallel,
                   "Split each sequence's tokens over the rows of the mesh between the blocks");
  command.add_flag("--count-norms", inputs.count_norms,
                   "Include the small all-reduces of the norms");
  command
      .add_option("--chunks", inputs.chunks,
                  "Chunks per batch; one computes while another communicates")
      .in_range(1u, 1024u)
      .type_name("N")
      .show_default();
  add_count(command, "--micro-batch", inputs.micro_batch,
            "Sequences that a replica runs at once; it adds up their gradients (default: all)");
  command
      .add_option("--recompute", inputs.recompute,
                  "What the backward pass computes again to save memory. selective: norms and "
                  "activation functions; full: each layer")
      .one_of({"none", "selective", "full"})
      .type_name("WHAT")
      .show_default();
  command
      .add_option("--device-memory", inputs.device_memory_gb,
                  "Memory per device; meshes that need more are rejected")
      .positive_number()
      .type_name("GB");
  command.add_flag("--attention-scores", inputs.attention_scores,
                   "Assume that attention stores its scores in memory (the runtime's does not)");
  command
      .add_option(
          "--device-tflops", inputs.device_tflops,
          "Matrix product speed per device in TFLOP/s, for the time of a step (default: from the "
          "cluster file)")
      .positive_number()
      .type_name("N");
}

Transformer model_from_flags(const PlanInputs& inputs) {
  if (inputs.hidden == 0 || inputs.layers == 0 || inputs.heads == 0) {
    throw CommandError("no model: use --model FILE, or --hidden, --layers and --heads",
                       kWrongUsage);
  }
  Transformer model{.name = "model of width " + std::to_string(inputs.hidden),
                    .hidden = inputs.hidden,
                    .layers = inputs.layers,
                    .heads = inputs.heads,
                    .kv_heads = inputs.kv_heads,
                    .ffn = inputs.ffn,
                    .gated = inputs.gated};
  if (inputs.gated) model.norm_statistics = 1;
  return model;
}

// The two files are easily exchanged, and what the wrong reader complains of would not say so.
CommandError wrong_file(const Error& complaint, const std::string& path, bool is_of_other_kind,
                        const char* kind, const char* option) {
  return CommandError(is_of_other_kind
                          ? fmt::format("{}: it is {}, which belongs to {}", path, kind, option)
                          : complaint.message,
                      kWrongUsage);
}

Transformer read_transformer(const PlanInputs& inputs) {
  Transformer model;
  if (inputs.model_file.empty()) {
    model = model_from_flags(inputs);
  } else {
    if (inputs.hidden != 0 || inputs.layers != 0 || inputs.heads != 0 || inputs.kv_heads != 0 ||
        inputs.ffn != 0 || inputs.gated) {
      throw CommandError(
          "--model FILE cannot be combined with the model's options; use one or the other",
          kWrongUsage);
    }
    const std::string& path = inputs.model_file;
    const Result<Model> file = read_model(path);
    if (!file) {
      throw wrong_file(file.error(), path, path != "-" && read_cluster(path).ok(), "a cluster file",
                       "--cluster");
    }
    model = file.value().transformer;
  }
  model.causal = !inputs.full_attention;
  if (inputs.element_bytes != 0) model.bytes_per_element = inputs.element_bytes;
  const Status valid = planner::validate(model);
  if (!valid) throw CommandError(valid.error().message, kWrongUsage);
  return model;
}

planner::Interconnect read_interconnect(const PlanInputs& inputs) {
  const std::string& path = inputs.cluster_file;
  const Result<Cluster> cluster =
      read_cluster(path, {names_in(inputs.hosts), inputs.ranks_per_host});
  if (!cluster) {
    throw wrong_file(cluster.error(), path, path != "-" && read_model(path).ok(),
                     "a model's config.json", "--model");
  }
  const Status fits = check_ranks(cluster.value(), inputs.ranks);
  if (!fits) throw CommandError(fits.error().message, kWrongUsage);
  return cluster.value().interconnect;
}

CostMode read_mode(const PlanInputs& inputs) {
  const bool paper = inputs.mode == "paper";
  if (inputs.literal && !paper) throw CommandError("--literal requires --mode paper", kWrongUsage);
  if (inputs.uncorrected && !paper) {
    throw CommandError("--uncorrected requires --mode paper", kWrongUsage);
  }
  if (!paper) return CostMode::kLinkLoad;
  // The equations ignore these flags; accepting one would suggest that it was taken into account.
  const auto refuse = [](const char* flag, const char* why) {
    throw CommandError(
        fmt::format("--mode paper: {} {}; remove it, or use --mode linkload", flag, why),
        kWrongUsage);
  };
  if (inputs.fused) refuse("--fused", "is not in equation 2");
  if (inputs.beyond_runtime) refuse("--beyond-runtime", "has no effect");
  if (inputs.volume == "exact") refuse("--volume exact", "is not the volume of equation 2");
  if (inputs.device_tflops > 0)
    refuse("--device-tflops", "has no effect, because they count communication alone");
  if (inputs.full_attention)
    refuse("--full-attention", "has no effect, because they count communication alone");
  if (!inputs.collectives.empty())
    refuse("--collectives", "has no effect, because equation 4 assumes a ring");
  return inputs.literal ? CostMode::kPaperLiteral : CostMode::kPaper;
}

CollectiveSet read_collectives(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  const auto has = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return {has("ring"), has("hierarchical"), has("innetwork"), has("gloo")};
}

}  // namespace

void add_plan_inputs(const Command& command, PlanInputs& inputs) {
  command
      .add_option("--cluster", inputs.cluster_file,
                  "Cluster file with the network, - for standard input")
      .required()
      .type_name("FILE");
  command
      .add_option(
          "-n,--ranks", inputs.ranks,
          "Number of tensor-parallel ranks; must match the cluster's devices (default: all)")
      .in_range(1u, kMax)
      .type_name("N");
  command
      .add_option("--hosts", inputs.hosts,
                  "Hosts of the cluster to plan for, as for `atp run --hosts` (default: all)")
      .type_name("NAMES");
  add_count(command, "--ranks-per-host", inputs.ranks_per_host,
            "Ranks per host (default: as in the cluster file)");
  add_model_options(command, inputs);
  add_cost_options(command, inputs);
}

planner::Request read_request(const PlanInputs& inputs) {
  planner::Request request;
  request.options.mode = read_mode(inputs);
  request.interconnect = read_interconnect(inputs);
  request.model = read_transformer(inputs);
  request.workload = {inputs.batch, inputs.sequence};
  request.world_size = inputs.ranks;
  request.options.dimension1 = request.options.dimension2 = read_collectives(inputs.collectives);
  request.options.point_to_point_correction = !inputs.uncorrected;
  if (inputs.fused) request.options.fused = true;
  if (inputs.volume == "equation2") {
    if (inputs.fused) {
      throw CommandError("--fused is not in equation 2; use --volume exact", kWrongUsage);
    }
    request.options.volume = planner::Volume::kEquation2;
  }
  request.options.by_heads = inputs.by_heads;
  request.options.whole_logits = inputs.whole_logits;
  request.options.sequence_parallel = inputs.sequence_parallel;
  request.options.searches_sequence_parallel =
      !inputs.sequence_parallel && planner::volume_of(request.options) == planner::Volume::kExact;
  request.options.count_norm_statistics = inputs.count_norms;
  request.options.chunks = inputs.chunks;
  request.options.micro_batch = inputs.micro_batch;
  request.options.recompute = inputs.recompute == "full"        ? planner::Recompute::kFull
                              : inputs.recompute == "selective" ? planner::Recompute::kSelective
                                                                : planner::Recompute::kNone;
  const std::vector<std::string>& named = inputs.collectives;
  const bool names_beyond = std::find(named.begin(), named.end(), "hierarchical") != named.end();
  request.options.runtime = planner::volume_of(request.options) == planner::Volume::kExact &&
                            !inputs.beyond_runtime && !names_beyond;
  request.options.stores_attention_scores = inputs.attention_scores;
  if (inputs.device_tflops > 0) {
    request.interconnect.device.flops_per_second = inputs.device_tflops * 1e12;
  }
  request.options.device_memory_bytes = inputs.device_memory_gb * 1e9;
  return request;
}

planner::Mesh parse_mesh(const std::string& text) {
  std::string numbers = text;
  if (numbers.size() > 2 && numbers.front() == '(' && numbers.back() == ')') {
    numbers = numbers.substr(1, numbers.size() - 2);
  }
  const std::size_t comma = numbers.find_first_of(",x");
  const auto side = [&](std::size_t from, std::size_t count) {
    return parse_integer(std::string_view(numbers).substr(from, count)).value_or(0);
  };
  const long long d1 = side(0, comma);
  const long long d2 = comma == std::string::npos ? 0 : side(comma + 1, std::string::npos);
  if (d1 < 1 || d2 < 1 || d1 > kMax || d2 > kMax) {
    throw CommandError(fmt::format("--mesh {}: expected two sizes, such as 4,2", text),
                       kWrongUsage);
  }
  return {static_cast<std::uint32_t>(d1), static_cast<std::uint32_t>(d2)};
}

}  // namespace atp
