#include "atp/cli/plan/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "atp/planner/text.h"

namespace atp {
namespace {

using planner::Candidate;
using planner::Collective;
using planner::DimensionCost;
using planner::Plan;
using planner::Request;

struct Prefix {
  double factor;
  const char* unit;
};

template <std::size_t kSize>
std::string with_prefix(double value, const std::array<Prefix, kSize>& prefixes) {
  const Prefix* chosen = &prefixes.front();
  for (const Prefix& prefix : prefixes) {
    if (value >= prefix.factor) chosen = &prefix;
  }
  return fmt::format("{:.3g} {}", value / chosen->factor, chosen->unit);
}

// "ring on dimension 1, in-network aggregation on dimension 2"
std::string collectives_text(const Candidate& candidate) {
  const auto one = [](const DimensionCost& cost, int dimension) {
    return fmt::format("{} on dimension {}",
                       cost.collective == Collective::kInNetwork
                           ? "in-network aggregation"
                           : planner::to_string(cost.collective),
                       dimension);
  };
  const DimensionCost& first = candidate.cost.dimension1;
  const DimensionCost& second = candidate.cost.dimension2;
  if (first.collective == Collective::kNone && second.collective == Collective::kNone) {
    return "no communication";
  }
  if (second.collective == Collective::kNone) return one(first, 1);
  if (first.collective == Collective::kNone) return one(second, 2);
  return one(first, 1) + ", " + one(second, 2);
}

std::string dimension_cell(const DimensionCost& cost) {
  if (cost.collective == Collective::kNone) return "-";
  return collective_text(cost.collective) + " " + duration_for_people(cost.seconds());
}

std::string dimension_text(const DimensionCost& cost, int dimension, std::uint32_t size,
                           std::uint64_t groups) {
  if (cost.collective == Collective::kNone) {
    return fmt::format("  dimension {}: one rank, nothing to reduce\n", dimension);
  }
  std::string text = fmt::format("  dimension {}: {} group{} of {}, {}\n", dimension, groups,
                                 groups == 1 ? "" : "s", size, planner::to_string(cost.collective));
  text += fmt::format(
      "    {:g} operations per layer with {} per rank in total: {} of bandwidth, {} of "
      "latency\n",
      cost.collectives, bytes_for_people(cost.bytes), duration_for_people(cost.bandwidth_seconds),
      duration_for_people(cost.latency_seconds));
  text += "    bottleneck: " + cost.bottleneck.text + "\n";
  if (!cost.why.empty()) text += "    why: " + cost.why + "\n";
  if (cost.fallback_share > 0) {
    text += fmt::format("    {:.1f} % of the fragments fall back to the servers\n",
                        100 * cost.fallback_share);
  }
  return text;
}

// The bottleneck of the slower dimension.
std::string bottleneck_text(const Candidate& candidate) {
  const planner::LayerCost& cost = candidate.cost;
  const bool is_first = cost.dimension1.seconds() >= cost.dimension2.seconds();
  const DimensionCost& slower = is_first ? cost.dimension1 : cost.dimension2;
  if (slower.collective == Collective::kNone) return "";
  return fmt::format("Bottleneck, on dimension {}: {}.\n", is_first ? 1 : 2,
                     slower.bottleneck.text);
}

// A model is more optimistic than a measurement, so measured meshes come first.
std::string measured_text(const Plan& plan) {
  if (!plan.best.measured) return "Note: this mesh was not measured.\n";
  for (const Candidate& other : plan.runners_up) {
    if (other.measured || other.cost.step_seconds >= plan.best.cost.step_seconds) continue;
    return fmt::format(
        "Note: {} was not measured; by the model, which is optimistic, it would take {}.\n",
        mesh_text(other.mesh), duration_for_people(other.cost.step_seconds));
  }
  return "";
}

// The mapping of ranks to devices; empty if device p runs rank p.
std::string order_text(const Request& request, const Candidate& best) {
  constexpr std::size_t kMaxPrinted = 64;
  const std::vector<std::uint32_t> ranks = planner::ranks_by_position(best.layout);
  if (std::is_sorted(ranks.begin(), ranks.end())) return "";
  std::string text =
      "Its ranks are not in the order of the devices; dimension 1 x dimension 2 per level: ";
  for (std::size_t level = 0; level < best.layout.size(); ++level) {
    text += fmt::format("{}'{}' {} x {}", level == 0 ? "" : ", ",
                        request.interconnect.levels[level].name, best.layout[level].d1,
                        best.layout[level].d2);
  }
  if (ranks.size() <= kMaxPrinted) {
    text += fmt::format(". Rank of each device: {}", fmt::join(ranks, " "));
  }
  return text + ".\n";
}

double micro_batches(const Request& request, const Candidate& candidate) {
  const double of_replica = 1.0 * request.workload.batch / candidate.data.replicas;
  return request.options.micro_batch == 0 ? 1 : of_replica / request.options.micro_batch;
}

// Of all micro-batches; layers, embedding, head and loss together.
double communication_of(const Request& request, const Candidate& candidate) {
  const planner::LayerCost& cost = candidate.cost;
  return micro_batches(request, candidate) *
         (cost.seconds * request.model.layers + cost.ends.seconds);
}

// "32 layers", or "4 micro-batches of 32 layers"
std::string layers_text(const Request& request, const Candidate& candidate) {
  const std::string layers = counted(request.model.layers, "layer");
  const double times = micro_batches(request, candidate);
  return times == 1 ? layers : fmt::format("{:g} micro-batches of {}", times, layers);
}

std::string ends_text(const planner::LayerCost& cost) {
  if (cost.ends.seconds == 0) return "";
  return fmt::format(" with embedding, head and loss ({})", duration_for_people(cost.ends.seconds));
}

std::string step_text(const Candidate& candidate) {
  const planner::StepTime& step = candidate.cost.step;
  if (step.seconds == 0) return "";
  return fmt::format(
      "A training step takes {}: {} of matrix products, {} of other computation, {}{} of waiting "
      "for {} of communication.\n",
      duration_for_people(step.seconds + candidate.data.waited), duration_for_people(step.products),
      duration_for_people(step.others),
      candidate.data.replicas > 1
          ? duration_for_people(candidate.data.waited) + " of waiting between replicas, and "
          : "and ",
      duration_for_people(step.waited), duration_for_people(step.sent));
}

// "Between the replicas, each rank's gradients (3.2 MB) take 4 ms by ring."
std::string data_text(const planner::DataCost& data) {
  if (data.replicas == 1) return "";
  return fmt::format("Between the replicas, each rank's {} ({}) take {} by {}.\n",
                     data.fully_shard ? "weights and gradients" : "gradients",
                     bytes_for_people(data.bytes), duration_for_people(data.seconds),
                     planner::to_string(data.collective));
}

// "mesh (4,2)", or "2 replicas of mesh (4,2)"
std::string mesh_phrase(const Candidate& candidate) {
  const std::string mesh = "mesh " + mesh_text(candidate.mesh);
  const char* tokens =
      candidate.sequence_parallel && candidate.mesh.d1 > 1 ? " with sequence parallelism" : "";
  return candidate.data.replicas == 1
             ? mesh + tokens
             : fmt::format("{} replicas of {}{}", candidate.data.replicas, mesh, tokens);
}

bool has_several_replicas(const Plan& plan) {
  const auto several = [](const Candidate& each) { return each.data.replicas > 1; };
  return several(plan.best) || std::any_of(plan.runners_up.begin(), plan.runners_up.end(), several);
}

std::string data_cell(const planner::DataCost& data) {
  if (data.replicas == 1) return "-";
  return collective_text(data.collective) + " " + duration_for_people(data.seconds);
}

std::vector<std::string> csv_row(const Candidate& candidate) {
  const planner::LayerCost& cost = candidate.cost;
  return {std::to_string(candidate.mesh.d1),
          std::to_string(candidate.mesh.d2),
          planner::to_string(cost.dimension1.collective),
          planner::to_string(cost.dimension2.collective),
          fmt::format("{}", cost.seconds),
          fmt::format("{}", cost.dimension1.bandwidth_seconds),
          fmt::format("{}", cost.dimension1.latency_seconds),
          fmt::format("{}", cost.dimension2.bandwidth_seconds),
          fmt::format("{}", cost.dimension2.latency_seconds),
          fmt::format("{}", cost.step_seconds),
          fmt::format("{}", candidate.memory.total()),
          layout_text(candidate.layout),
          "",
          std::to_string(candidate.data.replicas),
          fmt::format("{}", candidate.data.seconds)};
}

}  // namespace

std::string counted(std::uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string duration_for_people(double seconds) {
  constexpr std::array<Prefix, 4> kUnits{{{1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}, {1, "s"}}};
  return seconds == 0 ? "0" : with_prefix(seconds, kUnits);
}

std::string bytes_for_people(double bytes) {
  constexpr std::array<Prefix, 5> kUnits{
      {{1, "B"}, {1e3, "kB"}, {1e6, "MB"}, {1e9, "GB"}, {1e12, "TB"}}};
  return with_prefix(bytes, kUnits);
}

std::string collective_text(Collective collective) {
  return collective == Collective::kNone ? "-" : planner::to_string(collective);
}

std::string layout_text(const planner::MeshLayout& layout) {
  std::string text;
  for (const planner::LevelSplit& split : layout) {
    text += fmt::format("{}{}x{}", text.empty() ? "" : " . ", split.d1, split.d2);
  }
  return text;
}

std::string request_text(const Request& request, const Plan& plan) {
  const planner::Transformer& model = request.model;
  const std::string& name = request.interconnect.name;
  return fmt::format(
      "{}{}{}\n{}: {} of width {}; batch {} of {}; {} model{}\n",
      counted(plan.best.mesh.size() * plan.best.data.replicas, "device"), name.empty() ? "" : ": ",
      name, model.name, counted(model.layers, "layer"), model.hidden, request.workload.batch,
      counted(request.workload.sequence, "token"), planner::to_string(request.options.mode),
      request.options.runtime ? " of what atp.tensor_parallel runs" : "");
}

std::string verdict_text(const Request& request, const Plan& plan) {
  const Candidate& best = plan.best;
  std::string text;
  if (best.mesh.size() == 1 && best.data.replicas > 1) {
    text = fmt::format("Use data parallelism only: {} replicas, each on one device.\n",
                       best.data.replicas);
    if (request.options.device_memory_bytes == 0) {
      text += fmt::format("Each needs {} of memory; --device-memory rules out what does not fit.\n",
                          bytes_for_people(best.memory.total()));
    }
    return text + data_text(best.data) + step_text(best);
  }
  if (plan.use_one_dimensional) {
    text = fmt::format("Use plain 1-D tensor parallelism: {}, {}.\n", mesh_phrase(best),
                       collectives_text(best));
  } else {
    text = fmt::format("Use {}: {}.\n", mesh_phrase(best), collectives_text(best));
  }
  text += order_text(request, best);
  text += fmt::format("Communication takes {} per layer, forward and backward; {} for {}{}.\n",
                      duration_for_people(best.cost.seconds),
                      duration_for_people(communication_of(request, best)),
                      layers_text(request, best), ends_text(best.cost));
  text += data_text(best.data);
  text += step_text(best);
  if (!plan.use_one_dimensional && plan.one_dimensional) {
    text += fmt::format("Plain 1-D, mesh {}, would take {:.2f} times as long.\n",
                        mesh_text(plan.one_dimensional->mesh), plan.gain_over_one_dimensional);
  }
  return text;
}

std::string reasons_text(const Request& request, const Plan& plan) {
  std::string text;
  text += bottleneck_text(plan.best);
  if (!request.interconnect.measured.empty()) {
    text += measured_text(plan);
  }
  for (const std::string& note : plan.best.notes) text += "Note: " + note + ".\n";
  if (plan.sensitivities.empty()) return text;
  text += "What would change the answer:\n";
  for (const planner::Sensitivity& change : plan.sensitivities) {
    text += "  " + change.text + "\n";
  }
  return text;
}

std::string candidate_text(const Request& request, const Candidate& candidate) {
  const planner::LayerCost& cost = candidate.cost;
  std::string text = fmt::format("Mesh {}: {} per layer, {} for {}{}{}\n",
                                 mesh_text(candidate.mesh), duration_for_people(cost.seconds),
                                 duration_for_people(communication_of(request, candidate)),
                                 layers_text(request, candidate), ends_text(cost),
                                 candidate.measured ? ", from measured bandwidths" : "");
  text += step_text(candidate);
  for (std::size_t level = 0; level < candidate.layout.size(); ++level) {
    const planner::Level& described = request.interconnect.levels[level];
    text += fmt::format("  level {} '{}': {} = {} of dimension 1 x {} of dimension 2\n", level + 1,
                        described.name, described.count, candidate.layout[level].d1,
                        candidate.layout[level].d2);
  }
  text += dimension_text(cost.dimension1, 1, candidate.mesh.d1, candidate.mesh.d2);
  text += dimension_text(cost.dimension2, 2, candidate.mesh.d2, candidate.mesh.d1);
  if (cost.norm_seconds > 0) {
    text += fmt::format("  norm statistics: {} ({})\n", duration_for_people(cost.norm_seconds),
                        request.options.count_norm_statistics ? "counted" : "not counted above");
  }
  const planner::MemoryPerRank& memory = candidate.memory;
  text += fmt::format(
      "  memory per rank: {} (weights {}, gradients {}, optimizer {}, activations {}, "
      "working {})\n",
      bytes_for_people(memory.total()), bytes_for_people(memory.weights),
      bytes_for_people(memory.gradients), bytes_for_people(memory.optimizer),
      bytes_for_people(memory.activations), bytes_for_people(memory.working));
  for (const std::string& note : candidate.notes) text += "  note: " + note + "\n";
  return text;
}

TextTable mesh_table(const Plan& plan) {
  // The time of the whole step or, if the devices' speed is unknown, of its communication.
  const char* whole = plan.best.cost.step.seconds > 0 ? "step" : "in all";
  std::vector<std::string> header{"mesh", "dimension 1",  "dimension 2", "per layer",
                                  whole,  "against best", "memory"};
  const bool has_replicas = has_several_replicas(plan);
  if (has_replicas) {
    header.insert(header.begin(), "replicas");
    header.insert(header.begin() + 5, "between replicas");
  }
  TextTable table(header);
  const auto add = [&](const Candidate& candidate) {
    const planner::LayerCost& cost = candidate.cost;
    std::vector<std::string> row{
        mesh_text(candidate.mesh),
        dimension_cell(cost.dimension1),
        dimension_cell(cost.dimension2),
        duration_for_people(cost.seconds),
        duration_for_people(cost.step_seconds),
        plan.best.cost.step_seconds > 0
            ? fmt::format("{:.2f}", cost.step_seconds / plan.best.cost.step_seconds)
            : "1.00",
        bytes_for_people(candidate.memory.total())};
    if (has_replicas) {
      row.insert(row.begin(), std::to_string(candidate.data.replicas));
      row.insert(row.begin() + 5, data_cell(candidate.data));
    }
    table.add(std::move(row));
  };
  add(plan.best);
  for (const Candidate& candidate : plan.runners_up) add(candidate);
  return table;
}

std::string rejected_text(const Plan& plan) {
  std::string text;
  for (const planner::RejectedMesh& rejected : plan.rejected) {
    text += fmt::format("  {}{}  impossible: {}\n",
                        rejected.replicas == 1 ? "" : std::to_string(rejected.replicas) + " x ",
                        mesh_text(rejected.mesh), fmt::join(rejected.reasons, "; "));
  }
  return text;
}

TextTable mesh_csv(const Plan& plan) {
  TextTable table({"d1", "d2", "collective1", "collective2", "seconds", "bandwidth_seconds1",
                   "latency_seconds1", "bandwidth_seconds2", "latency_seconds2", "step_seconds",
                   "memory_bytes", "layout", "impossible", "replicas", "data_seconds"});
  table.add(csv_row(plan.best));
  for (const Candidate& candidate : plan.runners_up) table.add(csv_row(candidate));
  for (const planner::RejectedMesh& rejected : plan.rejected) {
    std::vector<std::string> row(15);
    row[0] = std::to_string(rejected.mesh.d1);
    row[1] = std::to_string(rejected.mesh.d2);
    row[12] = fmt::format("{}", fmt::join(rejected.reasons, "; "));
    row[13] = std::to_string(rejected.replicas);
    table.add(std::move(row));
  }
  return table;
}

}  // namespace atp
