#include "atp/planner/candidate.h"

#include "atp/planner/memory.h"

namespace atp::planner {

Costing costing_of(const Request& request) {
  return {request.interconnect, request.model, request.options,
          static_cast<double>(request.workload.tokens())};
}

Feasibility feasibility_in(const Request& request, Mesh mesh) {
  return feasibility_of(request.model, request.workload, mesh, request.options,
                        memory_per_rank(request.model, request.workload, mesh, request.options));
}

Candidate candidate_of(const Request& request, const Costing& costing, const Found& found) {
  Candidate candidate;
  candidate.mesh = found.mesh;
  candidate.layout = found.layout;
  candidate.cost = found.cost;
  describe(costing, found.layout, candidate.cost);
  candidate.memory = memory_per_rank(request.model, request.workload, found.mesh, request.options);
  candidate.measured = measurement_of(request.interconnect, found.mesh) != nullptr;
  Feasibility feasibility = feasibility_in(request, found.mesh);
  candidate.infeasible = std::move(feasibility.reasons);
  candidate.notes = std::move(feasibility.notes);
  if (found.layout.empty()) {
    candidate.notes.push_back(
        "the mesh has no layout that is contiguous and splits level by level");
  }
  return candidate;
}

}  // namespace atp::planner
