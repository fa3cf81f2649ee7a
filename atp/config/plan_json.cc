#include "atp/config/plan_json.h"

#include <nlohmann/json.hpp>

namespace atp {
namespace {

using nlohmann::ordered_json;
using planner::Candidate;
using planner::DimensionCost;

ordered_json mesh_json(const planner::Mesh& mesh) { return {mesh.d1, mesh.d2}; }

ordered_json collectives_json(planner::Collective dimension1, planner::Collective dimension2) {
  return {planner::to_string(dimension1), planner::to_string(dimension2)};
}

ordered_json dimension_json(const DimensionCost& cost) {
  return {{"collective", planner::to_string(cost.collective)},
          {"reduce_scatter", planner::to_string(cost.reduce_scatter)},
          {"all_gather", planner::to_string(cost.all_gather)},
          {"seconds", cost.seconds()},
          {"bandwidth_seconds", cost.bandwidth_seconds},
          {"latency_seconds", cost.latency_seconds},
          {"bytes", cost.bytes},
          {"operations", cost.collectives},
          {"fallback_share", cost.fallback_share},
          {"bottleneck", cost.bottleneck.text},
          {"why", cost.why}};
}

ordered_json memory_json(const planner::MemoryPerRank& memory) {
  return {{"weights", memory.weights},     {"gradients", memory.gradients},
          {"optimizer", memory.optimizer}, {"activations", memory.activations},
          {"working", memory.working},     {"total", memory.total()}};
}

ordered_json ends_json(const planner::EndsCost& ends) {
  return {{"seconds", ends.seconds},
          {"norm_seconds", ends.norm_seconds},
          {"bytes", {ends.bytes1, ends.bytes2}}};
}

ordered_json step_json(const planner::LayerCost& cost) {
  const planner::StepTime& step = cost.step;
  return {{"seconds", cost.step_seconds}, {"products", step.products},
          {"others", step.others},        {"sent", step.sent},
          {"waited", step.waited},        {"is_timed", step.seconds > 0}};
}

ordered_json sensitivity_json(const planner::Sensitivity& change) {
  return {{"change", change.text},
          {"factor", change.factor},
          {"mesh", mesh_json(change.mesh)},
          {"collectives", collectives_json(change.dimension1, change.dimension2)}};
}

ordered_json json_of(const Candidate& candidate) {
  const planner::LayerCost& cost = candidate.cost;
  ordered_json layout = ordered_json::array();
  for (const planner::LevelSplit& split : candidate.layout) layout.push_back({split.d1, split.d2});
  return {{"mesh", mesh_json(candidate.mesh)},
          {"collectives", collectives_json(cost.dimension1.collective, cost.dimension2.collective)},
          {"seconds", cost.seconds},
          {"norm_seconds", cost.norm_seconds},
          {"ends", ends_json(cost.ends)},
          {"step", step_json(cost)},
          {"layout", layout},
          {"dimensions", {dimension_json(cost.dimension1), dimension_json(cost.dimension2)}},
          {"memory_bytes", memory_json(candidate.memory)},
          {"data",
           {{"replicas", candidate.data.replicas},
            {"fully_shard", candidate.data.fully_shard},
            {"collective", planner::to_string(candidate.data.collective)},
            {"bytes", candidate.data.bytes},
            {"seconds", candidate.data.seconds},
            {"waited", candidate.data.waited}}},
          {"sequence_parallel", candidate.sequence_parallel},
          {"measured", candidate.measured},
          {"notes", candidate.notes}};
}

}  // namespace

std::string candidate_json(const Candidate& candidate, int indent) {
  return json_of(candidate).dump(indent);
}

std::string plan_json(const planner::Request& request, const planner::Plan& plan, int indent) {
  ordered_json json = json_of(plan.best);
  json["seconds_per_step"] = plan.seconds_per_step;
  json["use_one_dimensional"] = plan.use_one_dimensional;
  json["gain_over_one_dimensional"] = plan.gain_over_one_dimensional;
  json["one_dimensional"] =
      plan.one_dimensional ? json_of(*plan.one_dimensional) : ordered_json(nullptr);
  json["runners_up"] = ordered_json::array();
  for (const Candidate& candidate : plan.runners_up) {
    json["runners_up"].push_back(json_of(candidate));
  }
  json["rejected"] = ordered_json::array();
  for (const planner::RejectedMesh& rejected : plan.rejected) {
    json["rejected"].push_back({{"mesh", mesh_json(rejected.mesh)},
                                {"replicas", rejected.replicas},
                                {"reasons", rejected.reasons}});
  }
  json["what_would_change_it"] = ordered_json::array();
  for (const planner::Sensitivity& change : plan.sensitivities) {
    json["what_would_change_it"].push_back(sensitivity_json(change));
  }
  json["cluster"] = request.interconnect.name;
  json["model"] = request.model.name;
  json["ranks"] = plan.best.mesh.size() * plan.best.data.replicas;
  json["layers"] = request.model.layers;
  json["mode"] = planner::to_string(request.options.mode);
  json["job_ranks"] = request.interconnect.job_ranks;
  json["volume"] = planner::to_string(planner::volume_of(request.options));
  return json.dump(indent);
}

}  // namespace atp
