#include "atp/planner/planner.h"

#include <algorithm>
#include <set>

#include "atp/planner/candidate.h"
#include "atp/planner/request_check.h"
#include "atp/planner/sensitivity.h"
#include "atp/planner/text.h"

namespace atp::planner {
namespace {

Error no_feasible_mesh(const std::vector<RejectedMesh>& rejected) {
  std::string message = "no mesh can run this model on these devices:";
  for (const RejectedMesh& mesh : rejected) {
    message += "\n  mesh " + mesh_text(mesh.mesh) + ": ";
    for (std::size_t index = 0; index < mesh.reasons.size(); ++index) {
      if (index > 0) message += "; ";
      message += mesh.reasons[index];
    }
  }
  return Error{message};
}

void compare_with_one_dimension(Plan& plan, const std::vector<Found>& found, const Request& request,
                                const Costing& costing) {
  plan.use_one_dimensional = plan.best.mesh.d2 == 1;
  const auto one =
      std::find_if(found.begin(), found.end(), [](const Found& each) { return each.mesh.d2 == 1; });
  if (one == found.end()) return;
  plan.one_dimensional = candidate_of(request, costing, *one);
  if (plan.best.cost.seconds > 0) {
    plan.gain_over_one_dimensional = one->cost.seconds / plan.best.cost.seconds;
  }
}

// Splits the meshes into those that the model fits (by d1) and, with reasons, the others.
std::set<std::uint32_t> feasible_meshes(const Request& request,
                                        std::vector<RejectedMesh>& rejected) {
  std::set<std::uint32_t> feasible_d1;
  for (const Mesh mesh : meshes_of(device_count(request.interconnect))) {
    std::vector<std::string> reasons = feasibility_in(request, mesh).reasons;
    if (reasons.empty()) {
      feasible_d1.insert(mesh.d1);
    } else {
      rejected.push_back({mesh, std::move(reasons)});
    }
  }
  return feasible_d1;
}

void reject_unserved(const Request& request, std::set<std::uint32_t> unserved_d1,
                     const std::vector<Found>& found, std::vector<RejectedMesh>& rejected) {
  const std::uint64_t devices = device_count(request.interconnect);
  for (const Found& each : found) unserved_d1.erase(each.mesh.d1);
  for (const std::uint32_t d1 : unserved_d1) {
    rejected.push_back({{d1, static_cast<std::uint32_t>(devices / d1)}, {kNoCollective}});
  }
  std::sort(rejected.begin(), rejected.end(),
            [](const RejectedMesh& a, const RejectedMesh& b) { return a.mesh.d1 > b.mesh.d1; });
}

}  // namespace

Result<Plan> plan(const Request& request) {
  if (Status status = check_request(request); !status) return status.error();
  const Costing costing = costing_of(request);
  Plan plan;
  const std::set<std::uint32_t> feasible_d1 = feasible_meshes(request, plan.rejected);
  const auto wanted = [&feasible_d1](Mesh mesh) { return feasible_d1.contains(mesh.d1); };
  const std::vector<Found> found = search(costing, wanted);
  reject_unserved(request, feasible_d1, found, plan.rejected);
  if (found.empty()) return no_feasible_mesh(plan.rejected);

  plan.best = candidate_of(request, costing, found.front());
  const std::size_t kept =
      std::min<std::size_t>(found.size(), std::size_t{1} + request.options.runners_up);
  for (std::size_t index = 1; index < kept; ++index) {
    plan.runners_up.push_back(candidate_of(request, costing, found[index]));
  }
  plan.seconds_per_step = plan.best.cost.seconds * request.model.layers;
  plan.layouts_searched = layout_count(request.interconnect);
  compare_with_one_dimension(plan, found, request, costing);
  if (request.options.sensitivities) {
    plan.sensitivities = sensitivities_of(costing, found.front(), wanted);
  }
  return plan;
}

}  // namespace atp::planner
