#include "atp/planner/layer_cost.h"

#include <limits>

#include "atp/planner/layer_volume.h"
#include "atp/planner/paper_model.h"

namespace atp::planner {
namespace {

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

DimensionCost best_cost(const Costing& costing, const MeshLayout& layout, Dimension dimension,
                        const Demand& demand) {
  const Options& options = costing.options;
  const auto costs =
      dimension_costs(costing.interconnect, geometry_of(layout, dimension), demand,
                      dimension == Dimension::k1 ? options.dimension1 : options.dimension2,
                      costing.model.bytes_per_element);
  if (!costs.empty()) return costs.front();
  DimensionCost impossible;
  impossible.bandwidth_seconds = std::numeric_limits<double>::infinity();
  return impossible;
}

DimensionCost cost_of(const Costing& costing, Mesh mesh, const MeshLayout& layout,
                      Dimension dimension, const Demand& demand) {
  const bool is_first = dimension == Dimension::k1;
  const std::uint32_t members = is_first ? mesh.d1 : mesh.d2;
  if (members == 1) return {};
  if (const MeasuredMesh* measured = measurement_of(costing.interconnect, mesh)) {
    return measured_cost(demand, is_first ? measured->dimension1 : measured->dimension2);
  }
  if (is_paper(costing.options)) {
    const PaperBandwidths paper = paper_bandwidths(costing.interconnect, mesh, costing.options.mode,
                                                   costing.options.point_to_point_correction);
    return paper_cost(demand, members, is_first ? paper.dimension1 : paper.dimension2);
  }
  return best_cost(costing, layout, dimension, demand);
}

Accounting accounting_of(const Options& options) {
  if (volume_of(options) == Volume::kEquation2) return Accounting::kEquation2;
  return options.fused ? Accounting::kFused : Accounting::kPlain;
}

LayerVolume volume_of(const Costing& costing, Mesh mesh) {
  return layer_volume(costing.model, costing.tokens, mesh, accounting_of(costing.options));
}

}  // namespace

Demand layer_demand(const Costing& costing, Mesh mesh, Dimension dimension) {
  const LayerVolume volume = volume_of(costing, mesh);
  const double bytes = costing.model.bytes_per_element;
  // A chunk moves its part of the bytes and is an operation of its own.
  const double chunks = costing.options.chunks;
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

LayerCost layer_cost(const Costing& costing, Mesh mesh, const MeshLayout& layout) {
  const LayerVolume volume = volume_of(costing, mesh);
  LayerCost cost;
  cost.dimension1 =
      cost_of(costing, mesh, layout, Dimension::k1, layer_demand(costing, mesh, Dimension::k1));
  cost.dimension2 =
      cost_of(costing, mesh, layout, Dimension::k2, layer_demand(costing, mesh, Dimension::k2));
  const Demand norms{.all_reduced_bytes = volume.norm * costing.model.bytes_per_element,
                     .all_reduces = volume.norm_all_reduces * costing.options.chunks};
  cost.norm_seconds = cost_of(costing, mesh, layout, Dimension::k2, norms).seconds();
  cost.seconds = cost.dimension1.seconds() + cost.dimension2.seconds();
  if (costing.options.count_norm_statistics) cost.seconds += cost.norm_seconds;
  return cost;
}

}  // namespace atp::planner
