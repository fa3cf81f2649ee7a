#include "atp/planner/dimension_cost.h"

#include <algorithm>
#include <optional>

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

// A reduce-scatter is the first half of an all-reduce; an aggregating switch has no halves.
Seconds scatter_seconds(const AllReduceCost& cost, const Demand& demand) {
  const double part = cost.collective == Collective::kAggregation ? 1 : 0.5;
  return {part * demand.scattered_bytes * cost.fullest().seconds_per_byte,
          part * demand.scatters * cost.latency_s};
}

Seconds best_scatter(const std::vector<AllReduceCost>& costs, const Demand& demand) {
  std::optional<Seconds> best;
  for (const AllReduceCost& cost : costs) {
    if (cost.collective == Collective::kAggregation && best) continue;
    const Seconds seconds = scatter_seconds(cost, demand);
    if (!best || seconds.sum() < best->sum()) best = seconds;
  }
  return best.value_or(Seconds{});
}

}  // namespace

Bottleneck bottleneck_of(const LinkLoad& link) {
  return {link.role, link.level, link.groups, link.load, link.seconds_per_byte, {}};
}

std::vector<DimensionCost> dimension_costs(const Interconnect& interconnect,
                                           const GroupGeometry& geometry, const Demand& demand,
                                           CollectiveSet allowed, double bytes_per_element) {
  const auto all = allowed_all_reduces(interconnect, geometry, allowed, bytes_per_element);
  const Seconds scatter = best_scatter(all, demand);
  std::vector<DimensionCost> result;
  for (const AllReduceCost& cost : all) {
    const Seconds seconds = all_reduce_seconds(cost, demand);
    DimensionCost dimension;
    dimension.collective = cost.collective;
    dimension.bytes = demand.all_reduced_bytes + demand.scattered_bytes;
    dimension.bandwidth_seconds = seconds.bandwidth + scatter.bandwidth;
    dimension.latency_seconds = seconds.latency + scatter.latency;
    dimension.collectives = demand.all_reduces + demand.scatters;
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
