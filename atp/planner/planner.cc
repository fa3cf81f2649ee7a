#include "atp/planner/planner.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "atp/planner/feasibility.h"
#include "atp/planner/memory.h"
#include "atp/planner/replicas.h"
#include "atp/planner/search.h"
#include "atp/planner/sensitivity.h"
#include "atp/planner/text.h"

// Turns a request into a plan: checks it, searches, and describes the result. Also evaluates a
// single mesh or layout.

namespace atp::planner {
namespace {

// Why a feasible mesh has no cost.
constexpr const char* kNoCollective =
    "no allowed collective can run on one of its dimensions; allow a ring, or mark the switches "
    "that aggregate";

Status check_options(const Options& options) {
  if (options.fused.value_or(false) &&
      (options.mode != CostMode::kLinkLoad || options.volume != Volume::kExact)) {
    return Error{
        "fused reduce-scatters are not in equation 2; use link-load mode with "
        "exact volumes"};
  }
  if (options.runtime &&
      (options.mode != CostMode::kLinkLoad || options.volume != Volume::kExact)) {
    return Error{
        "runtime plans require link-load mode with exact volumes; use these, "
        "or turn off `runtime`"};
  }
  if (options.sequence_parallel && volume_of(options) != Volume::kExact) {
    return Error{
        "sequence parallelism is not in equation 2; use link-load mode with exact volumes"};
  }
  if (options.recompute != Recompute::kNone && volume_of(options) != Volume::kExact) {
    return Error{"recomputation is not in equation 2; use link-load mode with exact volumes"};
  }
  if (options.chunks == 0) return Error{"the number of chunks must be at least 1, found 0"};
  if (const double bytes = options.optimizer_bytes_per_parameter.value_or(0); !(bytes >= 0)) {
    return Error{"the optimizer's bytes per parameter must not be negative, found " +
                 number_text(bytes)};
  }
  if (!(options.device_memory_bytes >= 0)) {
    return Error{"a device's memory must not be negative, found " +
                 number_text(options.device_memory_bytes)};
  }
  return ok_status();
}

// Checks that a layout splits every level into factors of its count.
Status check_layout(const Interconnect& interconnect, const MeshLayout& layout) {
  const auto& levels = interconnect.levels;
  if (layout.size() != levels.size()) {
    return Error{"a layout must split each of the " + std::to_string(levels.size()) +
                 " levels, found " + std::to_string(layout.size()) + " splits"};
  }
  for (std::size_t index = 0; index < levels.size(); ++index) {
    const LevelSplit& split = layout[index];
    if (std::uint64_t{split.d1} * split.d2 == levels[index].count) continue;
    return Error{"level " + std::to_string(index + 1) + " " + quoted(levels[index].name) + " has " +
                 std::to_string(levels[index].count) + " children, but its split is " +
                 std::to_string(split.d1) + " x " + std::to_string(split.d2)};
  }
  return ok_status();
}

// Whether the runtime must guess which algorithm was measured.
bool assumes_ring(const Request& request, const LayerCost& cost) {
  return request.options.runtime && (cost.dimension1.collective == Collective::kMeasured ||
                                     cost.dimension2.collective == Collective::kMeasured);
}

bool is_beyond_runtime(const Candidate& candidate) {
  const auto has = [](const DimensionCost& cost) {
    return cost.collective == Collective::kHierarchical ||
           cost.reduce_scatter == Collective::kHierarchical ||
           cost.all_gather == Collective::kHierarchical;
  };
  return has(candidate.cost.dimension1) || has(candidate.cost.dimension2);
}

// Adds memory, texts and notes.
Candidate candidate_of(const Request& request, const CostInputs& inputs, const CostedMesh& found) {
  Candidate candidate;
  candidate.mesh = found.mesh;
  candidate.layout = found.layout;
  candidate.cost = found.cost;
  describe(inputs, found.mesh, found.layout, candidate.cost);
  candidate.memory = memory_per_rank(request.model, request.workload, found.mesh, request.options);
  candidate.sequence_parallel = request.options.sequence_parallel;
  candidate.measured = is_measured(inputs, found.mesh);
  Feasibility feasibility =
      feasibility_of(request.model, request.workload, found.mesh, request.options);
  candidate.infeasible = std::move(feasibility.reasons);
  candidate.notes = std::move(feasibility.notes);
  if (candidate.measured && assumes_ring(request, candidate.cost)) {
    candidate.notes.push_back(
        "the measurement does not say which algorithm ran; the runtime uses a ring");
  }
  if (request.interconnect.point_to_point && request.options.mode == CostMode::kLinkLoad) {
    candidate.notes.push_back(
        "devices are used in the order of the point-to-point matrix; only the layouts of meshes "
        "are "
        "searched, so the same devices in another order may be faster");
  }
  if (is_beyond_runtime(candidate)) {
    candidate.notes.push_back("atp.tensor_parallel cannot run this: it has no hierarchical sums");
  }
  if (found.layout.empty()) {
    candidate.notes.push_back(
        "the mesh has no layout that is contiguous and splits level by level");
  }
  return candidate;
}

void compare_with_one_dimension(Plan& plan, const std::vector<CostedMesh>& found,
                                const Request& request, const CostInputs& inputs) {
  plan.use_one_dimensional = plan.best.mesh.d2 == 1;
  const auto one = std::find_if(found.begin(), found.end(),
                                [](const CostedMesh& each) { return each.mesh.d2 == 1; });
  if (one == found.end()) return;
  plan.one_dimensional = candidate_of(request, inputs, *one);
  if (plan.best.cost.step_seconds > 0) {
    plan.gain_over_one_dimensional = one->cost.step_seconds / plan.best.cost.step_seconds;
  }
}

// Separates feasible meshes (by d1) from the others, which get reasons.
std::set<std::uint32_t> feasible_meshes(const Request& request,
                                        std::vector<RejectedMesh>& rejected) {
  std::set<std::uint32_t> feasible_d1;
  for (const Mesh mesh : meshes_of(device_count(request.interconnect))) {
    std::vector<std::string> reasons =
        feasibility_of(request.model, request.workload, mesh, request.options).reasons;
    if (reasons.empty()) {
      feasible_d1.insert(mesh.d1);
    } else {
      rejected.push_back({mesh, std::move(reasons)});
    }
  }
  return feasible_d1;
}

void reject_unserved(const Request& request, std::set<std::uint32_t> unserved_d1,
                     const std::vector<CostedMesh>& found, std::vector<RejectedMesh>& rejected) {
  const std::uint64_t devices = device_count(request.interconnect);
  for (const CostedMesh& each : found) unserved_d1.erase(each.mesh.d1);
  for (const std::uint32_t d1 : unserved_d1) {
    rejected.push_back({{d1, static_cast<std::uint32_t>(devices / d1)}, {kNoCollective}});
  }
  std::sort(rejected.begin(), rejected.end(),
            [](const RejectedMesh& a, const RejectedMesh& b) { return a.mesh.d1 > b.mesh.d1; });
}

}  // namespace

CostInputs cost_inputs(const Request& request) {
  const Workload micro = micro_batch_of(request.workload, request.options);
  return {request.interconnect,
          request.model,
          request.options,
          static_cast<double>(micro.tokens()),
          static_cast<double>(micro.sequence),
          sequences_at_once(request.workload, request.options),
          static_cast<double>(request.workload.batch) / micro.batch};
}

Error no_feasible_mesh(const std::vector<RejectedMesh>& rejected) {
  std::string message = "no mesh can run this model on these devices:";
  for (const RejectedMesh& mesh : rejected) {
    message += "\n  mesh " + mesh_text(mesh.mesh);
    if (mesh.replicas > 1) message += ", " + std::to_string(mesh.replicas) + " replicas";
    message += ": ";
    for (std::size_t index = 0; index < mesh.reasons.size(); ++index) {
      if (index > 0) message += "; ";
      message += mesh.reasons[index];
    }
  }
  return Error{message};
}

Status check_request(const Request& request) {
  if (Status status = validate(request.interconnect); !status) return status;
  if (Status status = validate(request.model); !status) return status;
  if (Status status = validate(request.workload); !status) return status;
  if (Status status = check_options(request.options); !status) return status;
  const std::uint64_t devices = device_count(request.interconnect);
  if (request.world_size != 0 && request.world_size != devices) {
    return Error{"the world size is " + std::to_string(request.world_size) +
                 ", but the levels of the interconnect multiply to " + std::to_string(devices) +
                 " devices; describe only the part that the group runs on, or ask for " +
                 std::to_string(devices)};
  }
  return ok_status();
}

namespace {

// The faster of two candidates for each mesh and number of replicas, the fastest first; ties keep
// the order of `found`.
std::vector<Candidate> best_of_each(std::vector<Candidate> found) {
  std::multimap<std::pair<bool, double>, Candidate> sorted;
  for (Candidate& each : found) {
    const std::pair key(!each.measured, comparable(each.cost.step_seconds));
    sorted.emplace(key, std::move(each));
  }
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  std::vector<Candidate> best;
  for (auto& [key, each] : sorted) {
    if (seen.emplace(each.mesh.d1, each.data.replicas).second) best.push_back(std::move(each));
  }
  return best;
}

Result<Plan> plan_with_either(const Request& request) {
  Request one = request;
  one.options.searches_sequence_parallel = one.options.sequence_parallel = false;
  Result<Plan> whole = plan(one);
  one.options.sequence_parallel = true;
  Result<Plan> split = plan(one);
  if (!split) return whole;
  if (!whole) return split;
  std::vector<Candidate> found;
  for (Plan* each : {&whole.value(), &split.value()}) {
    found.push_back(std::move(each->best));
    std::move(each->runners_up.begin(), each->runners_up.end(), std::back_inserter(found));
  }
  found = best_of_each(std::move(found));
  Plan plan = std::move(found.front().sequence_parallel ? split.value() : whole.value());
  plan.best = found.front();
  plan.runners_up.assign(found.begin() + 1, found.end());
  std::erase_if(plan.rejected, [&found](const RejectedMesh& rejected) {
    return std::any_of(found.begin(), found.end(), [&rejected](const Candidate& each) {
      return each.mesh == rejected.mesh && each.data.replicas == rejected.replicas;
    });
  });
  plan.seconds_per_step = plan.best.cost.step_seconds;
  return plan;
}

}  // namespace

Result<Plan> plan(const Request& request) {
  if (request.options.searches_sequence_parallel) return plan_with_either(request);
  if (Status status = check_request(request); !status) return status.error();
  if (request.options.replicas != 1) return plan_with_replicas(request);
  const CostInputs inputs = cost_inputs(request);
  Plan plan;
  const std::set<std::uint32_t> feasible_d1 = feasible_meshes(request, plan.rejected);
  const auto wanted = [&feasible_d1](Mesh mesh) { return feasible_d1.contains(mesh.d1); };
  const std::vector<CostedMesh> found = search(inputs, wanted);
  reject_unserved(request, feasible_d1, found, plan.rejected);
  if (found.empty()) return no_feasible_mesh(plan.rejected);

  plan.best = candidate_of(request, inputs, found.front());
  const std::size_t kept =
      std::min<std::size_t>(found.size(), std::size_t{1} + request.options.runners_up);
  for (std::size_t index = 1; index < kept; ++index) {
    plan.runners_up.push_back(candidate_of(request, inputs, found[index]));
  }
  plan.seconds_per_step = plan.best.cost.step_seconds;
  plan.layouts_searched = layout_count(request.interconnect);
  compare_with_one_dimension(plan, found, request, inputs);
  if (request.options.sensitivities) {
    plan.sensitivities = sensitivities_of(inputs, found.front(), wanted);
  }
  return plan;
}

Result<Candidate> evaluate(const Request& request, Mesh mesh) {
  if (Status status = check_request(request); !status) return status.error();
  const std::uint64_t devices = device_count(request.interconnect);
  if (mesh.d1 == 0 || mesh.d2 == 0 || mesh.size() != devices) {
    return Error{"mesh " + mesh_text(mesh) + " has " + std::to_string(mesh.size()) +
                 " ranks, but the interconnect has " + std::to_string(devices) + " devices"};
  }
  const CostInputs inputs = cost_inputs(request);
  const std::vector<CostedMesh> found =
      search(inputs, [mesh](Mesh candidate) { return candidate == mesh; });
  if (found.empty()) return Error{"mesh " + mesh_text(mesh) + ": " + kNoCollective};
  return candidate_of(request, inputs, found.front());
}

Result<Candidate> evaluate(const Request& request, const MeshLayout& layout) {
  if (Status status = check_request(request); !status) return status.error();
  if (Status status = check_layout(request.interconnect, layout); !status) return status.error();
  const CostInputs inputs = cost_inputs(request);
  const Mesh mesh = mesh_of(layout);
  const CostedMesh found{mesh, layout, layer_cost(inputs, mesh, layout)};
  if (!std::isfinite(found.cost.seconds))
    return Error{"mesh " + mesh_text(mesh) + ": " + kNoCollective};
  return candidate_of(request, inputs, found);
}

Result<double> all_reduce_seconds(const Interconnect& interconnect, const MeshLayout& layout,
                                  Dimension dimension, double bytes, CollectiveSet allowed,
                                  std::uint32_t bytes_per_element) {
  if (Status status = validate(interconnect); !status) return status.error();
  if (Status status = check_layout(interconnect, layout); !status) return status.error();
  if (bytes_per_element == 0) return Error{"an element must have at least 1 byte, found 0"};
  const GroupGeometry geometry = geometry_of(layout, dimension);
  if (geometry.members == 1) return 0.0;
  const auto costs =
      dimension_costs(interconnect, geometry, {bytes, 1}, allowed, bytes_per_element);
  if (costs.empty()) return Error{"mesh " + mesh_text(mesh_of(layout)) + ": " + kNoCollective};
  return costs.front().seconds();
}

}  // namespace atp::planner
