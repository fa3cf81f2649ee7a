#include "atp/planner/dimension_cost.h"

#include <algorithm>

#include "atp/planner/comparable.h"

namespace atp::planner {
namespace {

std::vector<AllReduceCost> allowed_all_reduces(const Interconnect& interconnect,
                                               const GroupGeometry& geometry, CollectiveSet allowed,
                                               double bytes_per_element) {
  std::vector<AllReduceCost> costs;
  if (allowed.ring) costs.push_back(ring_all_reduce(interconnect, geometry));
  if (allowed.hierarchical) costs.push_back(hierarchical_all_reduce(interconnect, geometry));
  if (allowed.aggregation && can_aggregate(interconnect, geometry)) {
    costs.push_back(aggregating_all_reduce(interconnect, geometry, bytes_per_element));
  }
  return costs;
}

struct Seconds {
  double bandwidth = 0;
  double latency = 0;
  double sum() const { return bandwidth + latency; }
};

Seconds all_reduce_seconds(const AllReduceCost& cost, const Demand& demand) {
  return {demand.all_reduced_bytes * cost.fullest().seconds_per_byte,
          demand.all_reduces * cost.latency_s};
}

// Reduce-scatters or all-gathers.
struct Half {
  Collective collective = Collective::kNone;
  Seconds seconds;
};

// The cheapest way; the simplest of equal ones.
Half best_half(const std::vector<AllReduceCost>& costs, double bytes, double operations) {
  Half best;
  if (operations == 0) return best;
  for (const AllReduceCost& cost : costs) {
    const double part = cost.collective == Collective::kAggregation ? 1 : 0.5;
    const Seconds seconds{part * bytes * cost.fullest().seconds_per_byte,
                          part * operations * cost.latency_s};
    if (best.collective == Collective::kNone ||
        comparable(seconds.sum()) < comparable(best.seconds.sum())) {
      best = {cost.collective, seconds};
    }
  }
  return best;
}

}  // namespace

Bottleneck bottleneck_of(const LinkLoad& link) {
  return {link.role, link.level, link.groups, link.load, link.seconds_per_byte, {}};
}

std::vector<DimensionCost> dimension_costs(const Interconnect& interconnect,
                                           const GroupGeometry& geometry, const Demand& demand,
                                           CollectiveSet allowed, double bytes_per_element) {
  const auto all = allowed_all_reduces(interconnect, geometry, allowed, bytes_per_element);
  const Half scatter = best_half(all, demand.scattered_bytes, demand.reduce_scatters);
  const Half gather = best_half(all, demand.gathered_bytes, demand.all_gathers);
  std::vector<DimensionCost> result;
  for (const AllReduceCost& cost : all) {
    const Seconds seconds = all_reduce_seconds(cost, demand);
    DimensionCost dimension;
    dimension.collective = cost.collective;
    dimension.reduce_scatter = scatter.collective;
    dimension.all_gather = gather.collective;
    dimension.bytes = demand.bytes();
    dimension.bandwidth_seconds =
        seconds.bandwidth + scatter.seconds.bandwidth + gather.seconds.bandwidth;
    dimension.latency_seconds = seconds.latency + scatter.seconds.latency + gather.seconds.latency;
    dimension.collectives = demand.operations();
    dimension.fallback_share = cost.fallback_share;
    dimension.bottleneck = bottleneck_of(cost.fullest());
    result.push_back(std::move(dimension));
  }
  // Rounding noise must not decide against the simpler collective.
  std::sort(result.begin(), result.end(), [](const DimensionCost& a, const DimensionCost& b) {
    const double seconds_a = comparable(a.seconds()), seconds_b = comparable(b.seconds());
    return seconds_a != seconds_b ? seconds_a < seconds_b : a.collective < b.collective;
  });
  return result;
}

}  // namespace atp::planner
