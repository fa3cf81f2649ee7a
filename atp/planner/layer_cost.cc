#include "atp/planner/layer_cost.h"

#include <algorithm>
#include <limits>

#include "atp/planner/layer_volume.h"
#include "atp/planner/paper_model.h"

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

// Copies numbers, not text.
Bottleneck bottleneck_of(const LinkLoad& link) {
  return {link.role, link.level, link.groups, link.load, link.seconds_per_byte, {}};
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

bool is_paper(const Options& options) { return options.mode != CostMode::kLinkLoad; }

// The bandwidth is known as such; only equation 2 remains.
DimensionCost cost_of_bandwidth(Collective collective, const Demand& demand,
                                const Bottleneck& bottleneck) {
  DimensionCost cost;
  cost.collective = collective;
  if (demand.reduce_scatters > 0) cost.reduce_scatter = collective;
  if (demand.all_gathers > 0) cost.all_gather = collective;
  cost.bytes = demand.bytes();
  cost.bandwidth_seconds =
      (demand.all_reduced_bytes + (demand.scattered_bytes + demand.gathered_bytes) / 2) *
      bottleneck.seconds_per_byte;
  cost.collectives = demand.operations();
  cost.bottleneck = bottleneck;
  return cost;
}

DimensionCost measured_cost(const Demand& demand, BytesPerSecond bandwidth) {
  return cost_of_bandwidth(Collective::kMeasured, demand,
                           {LinkRole::kGroup, 0, 1, 1, 1 / bandwidth.value, {}});
}

DimensionCost paper_cost(const Demand& demand, std::uint32_t members, const PaperBandwidth& paper) {
  const double seconds_per_byte = ring_seconds_per_byte(members, paper.bandwidth);
  return cost_of_bandwidth(Collective::kRing, demand,
                           {paper.role,
                            paper.level,
                            paper.groups,
                            2.0 * (members - 1) / members * paper.groups,
                            seconds_per_byte,
                            {}});
}

DimensionCost best_cost(const CostInputs& inputs, const MeshLayout& layout, Dimension dimension,
                        const Demand& demand) {
  const Options& options = inputs.options;
  const auto costs =
      dimension_costs(inputs.interconnect, geometry_of(layout, dimension), demand,
                      dimension == Dimension::k1 ? options.dimension1 : options.dimension2,
                      inputs.model.bytes_per_element);
  if (!costs.empty()) return costs.front();
  DimensionCost impossible;
  impossible.bandwidth_seconds = std::numeric_limits<double>::infinity();
  return impossible;
}

DimensionCost cost_of(const CostInputs& inputs, Mesh mesh, const MeshLayout& layout,
                      Dimension dimension, const Demand& demand) {
  const bool is_first = dimension == Dimension::k1;
  const std::uint32_t members = is_first ? mesh.d1 : mesh.d2;
  if (members == 1) return {};
  if (const MeasuredMesh* measured = measurement_of(inputs.interconnect, mesh)) {
    return measured_cost(demand, is_first ? measured->dimension1 : measured->dimension2);
  }
  if (is_paper(inputs.options)) {
    const PaperBandwidths paper = paper_bandwidths(inputs.interconnect, mesh, inputs.options.mode,
                                                   inputs.options.point_to_point_correction);
    return paper_cost(demand, members, is_first ? paper.dimension1 : paper.dimension2);
  }
  return best_cost(inputs, layout, dimension, demand);
}

Accounting accounting_of(const Options& options) {
  if (volume_of(options) == Volume::kEquation2) return Accounting::kEquation2;
  return options.fused ? Accounting::kFused : Accounting::kPlain;
}

LayerVolume volume_of(const CostInputs& inputs, Mesh mesh) {
  return layer_volume(inputs.model, inputs.tokens, mesh, accounting_of(inputs.options));
}

}  // namespace

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

Demand layer_demand(const CostInputs& inputs, Mesh mesh, Dimension dimension) {
  const LayerVolume volume = volume_of(inputs, mesh);
  const double bytes = inputs.model.bytes_per_element;
  // A chunk moves its part of the bytes and is an operation of its own.
  const double chunks = inputs.options.chunks;
  if (dimension == Dimension::k1) {
    return {.all_reduced_bytes = volume.all_reduced1 * bytes,
            .all_reduces = volume.all_reduces1 * chunks};
  }
  return {.all_reduced_bytes = volume.all_reduced2 * bytes,
          .all_reduces = volume.all_reduces2 * chunks,
          .scattered_bytes = volume.reduce_scattered2 * bytes,
          .reduce_scatters = volume.reduce_scatters2 * chunks,
          .gathered_bytes = volume.all_gathered2 * bytes,
          .all_gathers = volume.all_gathers2 * chunks};
}

const MeasuredMesh* measurement_of(const Interconnect& interconnect, Mesh mesh) {
  for (const MeasuredMesh& measured : interconnect.measured) {
    if (measured.mesh == mesh) return &measured;
  }
  return nullptr;
}

LayerCost layer_cost(const CostInputs& inputs, Mesh mesh, const MeshLayout& layout) {
  const LayerVolume volume = volume_of(inputs, mesh);
  LayerCost cost;
  cost.dimension1 =
      cost_of(inputs, mesh, layout, Dimension::k1, layer_demand(inputs, mesh, Dimension::k1));
  cost.dimension2 =
      cost_of(inputs, mesh, layout, Dimension::k2, layer_demand(inputs, mesh, Dimension::k2));
  const Demand norms{.all_reduced_bytes = volume.norm * inputs.model.bytes_per_element,
                     .all_reduces = volume.norm_all_reduces * inputs.options.chunks};
  cost.norm_seconds = cost_of(inputs, mesh, layout, Dimension::k2, norms).seconds();
  cost.seconds = cost.dimension1.seconds() + cost.dimension2.seconds();
  if (inputs.options.count_norm_statistics) cost.seconds += cost.norm_seconds;
  return cost;
}

}  // namespace atp::planner
