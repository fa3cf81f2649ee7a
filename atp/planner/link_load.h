#pragma once

#include <vector>

#include "atp/planner/interconnect.h"
#include "atp/planner/mesh.h"
#include "atp/planner/plan.h"

// What one all-reduce sends over every link while all groups of its dimension run it.
//
// The unit of load is one rank's tensor: load 1.5 means that one and a half times its bytes cross
// the link in the fuller direction. By symmetry all links of a level carry the same, or the fullest
// of them is taken, so a collective is described by at most one load per level, and the time is
// that of the fullest link: every link is busy at once, and latency is added apart.
//
// In short (docs/planner.md), t = max over levels of c * q / U, with q the groups that share the
// link. The ring's c is 2(D-1)/D on every switch link, the hierarchical
// all-reduce's 2(K-1)/K with K the children spanned so far, aggregation's about 1. The tests
// rebuild the loads from explicit paths, link by link.

namespace atp::planner {

struct LinkLoad {
  LinkRole role = LinkRole::kNone;
  std::size_t level = 0;
  double groups = 1;
  double load = 0;
  double seconds_per_byte = 0;
};

// One collective on one dimension of one layout.
struct AllReduceCost {
  Collective collective = Collective::kNone;
  std::vector<LinkLoad> links;
  double latency_s = 0;
  double fallback_share = 0;

  // The fullest; the upper level's when equal. A load of 0 when the group has one rank.
  LinkLoad fullest() const;
};

// One ring through all D members in the order of the layout, top level slowest, each direction
// carrying half of the tensor. On a full level, rings of all orders of the siblings share the work.
AllReduceCost ring_all_reduce(const Interconnect& interconnect, const GroupGeometry& geometry);

// Reduce-scatter among the siblings of the bottom level, then of the next one above with what is
// left, and so on; all-gathers in the opposite order.
AllReduceCost hierarchical_all_reduce(const Interconnect& interconnect,
                                      const GroupGeometry& geometry);

// As hierarchical, but switches that aggregate sum what their children send and return the sum.
// Only if can_aggregate(). bytes_per_element is the tensor's, for the wire's expansion.
AllReduceCost aggregating_all_reduce(const Interconnect& interconnect,
                                     const GroupGeometry& geometry, double bytes_per_element);

// Whether a switch that can aggregate joins members of a group.
bool can_aggregate(const Interconnect& interconnect, const GroupGeometry& geometry);

// One level of a hierarchical all-reduce; aggregation runs these on the levels that cannot sum.
//
// Adds the level's links and latency to `cost`. `passing` is what all levels above exchange for the
// members in one unit of this level, in tensors; the return value is the same for one child:
// E_l = 2(a-1)/a + E_{l-1}/a, which is 2(K_l - 1)/K_l when no level above aggregates.
double hierarchical_step(const Interconnect& interconnect, const GroupGeometry& geometry,
                         std::size_t index, double passing, AllReduceCost& cost);

}  // namespace atp::planner
