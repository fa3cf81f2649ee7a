#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "atp/base/result.h"
#include "atp/planner/planner.h"

// The third dimension of a job: replicas of the mesh, each with a part of the batch.
//
// A replica is on consecutive devices, as in init_mesh(data_parallel=R), so replicas split the
// upper levels of the tree and meshes the rest. After a backward pass the ranks at the same place
// in all replicas sum their gradients (data parallelism), or keep a part of the weights each and
// gather them twice per micro-batch (fully sharded, FSDP). All these groups run at once; their time
// is that of the fullest link, as in the mesh. If the devices' speed is known, computation hides
// what it can of it (step_time.h).

namespace atp::planner {

// By level, top to bottom: how many of the children are in different replicas. Absent if replicas
// on consecutive devices would cut through a child, or through a ring or torus.
std::optional<std::vector<std::uint32_t>> replica_split(const Interconnect& interconnect,
                                                        std::uint32_t replicas);

// The part of the interconnect on which one replica runs while the others do the same. Its levels
// are the whole interconnect's; those that only separate replicas have one child.
Interconnect part_of_replica(const Interconnect& interconnect,
                             const std::vector<std::uint32_t>& split);

// The cost of synchronizing `replicas` replicas of this mesh.
DataCost data_cost(const Request& request, Mesh mesh, std::uint32_t replicas);

// plan() for Options::replicas other than 1.
Result<Plan> plan_with_replicas(const Request& request);

}  // namespace atp::planner
