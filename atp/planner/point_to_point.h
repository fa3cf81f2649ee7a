#pragma once

#include "atp/planner/link_load.h"

// The limits of an explicit matrix: no two devices exchange bytes faster than their entry, even if
// the levels' links are idle. Groups never share an entry, because each pair of devices belongs to
// one group.

namespace atp::planner {

// The limit from neighbours on the ring through all members.
LinkLoad point_to_point_of_ring(const PointToPointMatrix& matrix, const GroupGeometry& geometry);

// The limit from neighbours on the rings of one level, whose positions differ only on that level.
// `volume` is what a ring of the level's siblings carries per hop and device.
LinkLoad point_to_point_of_level(const PointToPointMatrix& matrix, const GroupGeometry& geometry,
                                 std::size_t level, double volume);

}  // namespace atp::planner
