#include "atp/planner/sibling_exchange.h"

namespace atp::planner {

double ring_hop_load(const Level& level, const GroupLevel& group, bool is_closed) {
  // With two children both directions share one link, unless the ring only passes by.
  if (level.count == 2) return (is_closed ? 1 : 0.5) * group.sharing;
  // Siblings `other` apart go around the whole circle, and so do the groups beside them: every
  // link is crossed by hops of all of them, half of the volume clockwise.
  if (group.strided || group.other == 1) return group.other / 2 * group.sharing;
  // An arc: the hop that closes the ring returns over all its links.
  return (is_closed ? 1 : 0.5) * group.sharing;
}

double full_hop_load(const GroupLevel& group, bool is_closed) {
  // `own` or, when it is open, own - 1 hops on own * (own - 1) directed links.
  return (is_closed ? 1 / (group.own - 1) : 1 / group.own) * group.sharing;
}

}  // namespace atp::planner
