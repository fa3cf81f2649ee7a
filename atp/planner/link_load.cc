#include "atp/planner/link_load.h"

#include <algorithm>

namespace atp::planner {

LinkLoad AllReduceCost::fullest() const {
  LinkLoad fullest;
  for (const LinkLoad& link : links) {
    if (link.seconds_per_byte > fullest.seconds_per_byte) fullest = link;
  }
  return fullest;
}

bool can_aggregate(const Interconnect& interconnect, const GroupGeometry& geometry) {
  for (std::size_t index = 0; index < geometry.levels.size(); ++index) {
    if (interconnect.levels[index].aggregation && geometry.levels[index].own > 1) return true;
  }
  return false;
}

}  // namespace atp::planner
