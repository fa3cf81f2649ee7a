#include <cmath>

#include "atp/planner/candidate.h"
#include "atp/planner/planner.h"
#include "atp/planner/request_check.h"
#include "atp/planner/text.h"

// One mesh or one layout that the caller names, without a search for better ones.

namespace atp::planner {

Result<Candidate> evaluate(const Request& request, Mesh mesh) {
  if (Status status = check_request(request); !status) return status.error();
  const std::uint64_t devices = device_count(request.interconnect);
  if (mesh.d1 == 0 || mesh.d2 == 0 || mesh.size() != devices) {
    return Error{"mesh " + mesh_text(mesh) + " has " + std::to_string(mesh.size()) +
                 " ranks, but the interconnect has " + std::to_string(devices) + " devices"};
  }
  const Costing costing = costing_of(request);
  const std::vector<Found> found =
      search(costing, [mesh](Mesh candidate) { return candidate == mesh; });
  if (found.empty()) return Error{"mesh " + mesh_text(mesh) + ": " + kNoCollective};
  return candidate_of(request, costing, found.front());
}

Result<Candidate> evaluate(const Request& request, const MeshLayout& layout) {
  if (Status status = check_request(request); !status) return status.error();
  if (Status status = check_layout(request.interconnect, layout); !status) return status.error();
  const Costing costing = costing_of(request);
  const Mesh mesh = mesh_of(layout);
  const Found found{mesh, layout, layer_cost(costing, mesh, layout)};
  if (!std::isfinite(found.cost.seconds))
    return Error{"mesh " + mesh_text(mesh) + ": " + kNoCollective};
  return candidate_of(request, costing, found);
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
