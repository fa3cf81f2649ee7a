#pragma once

#include <vector>

#include "atp/planner/interconnect.h"
#include "atp/planner/mesh.h"
#include "atp/planner/plan.h"

// The traffic of an all-reduce on every link while all groups of its dimension run it.
//
// The unit of load is one rank's tensor: at load 1.5, one and a half times its bytes cross the link
// in the busier direction. By symmetry all links of a level carry the same load; otherwise the
// fullest counts, so a collective has at most one load per level. Its time is the fullest link's,
// because all links are busy at once; latency is added separately.
//
// In short (docs/plan/planner.md), t = max over levels of c * q / U, with q the groups that share
// the link. The ring's c is 2(D-1)/D on every switch link, the hierarchical all-reduce's 2(K-1)/K
// with K the children spanned so far, aggregation's about 1. The tests derive the loads from
// explicit paths, link by link.

namespace atp::planner {

struct LinkLoad {
  LinkRole role = LinkRole::kNone;
  std::size_t level = 0;
  double groups = 1;
  double load = 0;
  double seconds_per_byte = 0;
  Burst burst;
};

// One collective on one dimension of one layout.
struct AllReduceCost {
  Collective collective = Collective::kNone;
  std::vector<LinkLoad> links;
  double latency_s = 0;
  double fallback_share = 0;

  // The fullest link; among equals the upper level's. Its load is 0 if the group has one rank.
  LinkLoad fullest() const;
};

// A ring through all D members in layout order, the top level slowest. Each direction carries half
// of the tensor. On a full level, rings in all orders of the siblings share the work.
AllReduceCost ring_all_reduce(const Interconnect& interconnect, const GroupGeometry& geometry);

// Reduce-scatters among the siblings of the bottom level, then with the remaining part on the next
// level above, and so on; all-gathers in the opposite order.
AllReduceCost hierarchical_all_reduce(const Interconnect& interconnect,
                                      const GroupGeometry& geometry);

// Like hierarchical, but aggregating switches sum what their children send and return the sum. Only
// if can_aggregate(). `bytes_per_element` is the tensor's, for the expansion on the wire.
AllReduceCost aggregating_all_reduce(const Interconnect& interconnect,
                                     const GroupGeometry& geometry, double bytes_per_element);

// Whether an aggregating switch connects members of a group.
bool can_aggregate(const Interconnect& interconnect, const GroupGeometry& geometry);

// One level of a hierarchical all-reduce; aggregation also uses it on levels that cannot sum.
//
// Adds the level's links and latency to `cost`. `passing` is what all levels above exchange for the
// members in one unit of this level, in tensors. Returns the same for one child:
// E_l = 2(a-1)/a + E_{l-1}/a, which is 2(K_l - 1)/K_l if no level above aggregates.
double hierarchical_step(const Interconnect& interconnect, const GroupGeometry& geometry,
                         std::size_t index, double passing, AllReduceCost& cost);

}  // namespace atp::planner
