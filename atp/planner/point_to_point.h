#pragma once

#include "atp/planner/link_load.h"

// The bounds that an explicit matrix adds: no two devices exchange bytes faster than it says,
// however idle the levels' links are. The groups do not share an entry, for each pair of devices
// belongs to one group.

namespace atp::planner {

// Neighbours on the ring through all members.
LinkLoad point_to_point_of_ring(const PointToPointMatrix& matrix, const GroupGeometry& geometry);

// Neighbours on the rings of one level: devices whose places differ on that level only. `volume`
// is what a ring of the level's siblings carries per hop and device.
LinkLoad point_to_point_of_level(const PointToPointMatrix& matrix, const GroupGeometry& geometry,
                                 std::size_t level, double volume);

}  // namespace atp::planner
