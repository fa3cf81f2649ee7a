#include "atp/planner/layer_cost.h"

#include <algorithm>
#include <limits>

#include "atp/planner/feasibility.h"
#include "atp/planner/paper_model.h"
#include "atp/planner/step_time.h"

namespace atp::planner {
namespace {

std::vector<AllReduceCost> allowed_all_reduces(const Interconnect& interconnect,
                                               const GroupGeometry& geometry, CollectiveSet allowed,
                                               double bytes_per_element) {
  std::vector<AllReduceCost> costs;
  if (allowed.ring || allowed.gloo) costs.push_back(ring_all_reduce(interconnect, geometry));
  if (!allowed.ring && allowed.gloo) costs.back().collective = Collective::kGloo;
  if (allowed.hierarchical) costs.push_back(hierarchical_all_reduce(interconnect, geometry));
  if (allowed.in_network && can_aggregate(interconnect, geometry)) {
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
  const LinkLoad link = cost.fullest();
  return {demand.all_reduced_bytes * link.seconds_per_byte +
              link.burst.of(demand.all_reduced_bytes, demand.all_reduces),
          demand.all_reduces * cost.latency_s};
}

// Copies only the numbers, not the text.
Bottleneck bottleneck_of(const LinkLoad& link) {
  return {link.role, link.level, link.groups, link.load, link.seconds_per_byte, {}};
}

// The reduce-scatters or the all-gathers.
struct Half {
  Collective collective = Collective::kNone;
  Seconds seconds;
  Rate rate;
};

// The cost of a reduce-scatter or all-gather relative to an all-reduce. Switches only do whole
// sums.
double scatter_part(Collective collective) {
  return collective == Collective::kInNetwork || collective == Collective::kGloo ? 1 : 0.5;
}
double gather_part(Collective collective) { return collective == Collective::kInNetwork ? 1 : 0.5; }

// The cheapest collective that `may_run`; among equals the simplest.
template <class MayRun>
Half best_half(const std::vector<AllReduceCost>& costs, double bytes, double operations,
               double (*part_of)(Collective), MayRun may_run) {
  Half best;
  if (operations == 0) return best;
  for (const AllReduceCost& cost : costs) {
    if (!may_run(cost.collective)) continue;
    const double part = part_of(cost.collective);
    const LinkLoad link = cost.fullest();  // only a switch's has bursts, and its part is 1
    const Seconds seconds{part * bytes * link.seconds_per_byte + link.burst.of(bytes, operations),
                          part * operations * cost.latency_s};
    if (best.collective == Collective::kNone ||
        comparable(seconds.sum()) < comparable(best.seconds.sum())) {
      best = {cost.collective,
              seconds,
              {part * link.seconds_per_byte, part * cost.latency_s, link.burst}};
    }
  }
  return best;
}

// The cost of `demand` with one collective for its all-reduces. Reduce-scatters and all-gathers use
// the cheapest of `all`, or what the runtime uses.
DimensionCost cost_with(const AllReduceCost& cost, const std::vector<AllReduceCost>& all,
                        const Demand& demand, bool runtime) {
  const Seconds seconds = all_reduce_seconds(cost, demand);
  const Half scatter =
      best_half(all, demand.scattered_bytes, demand.reduce_scatters, scatter_part,
                [&](Collective half) { return !runtime || half == cost.collective; });
  const Half gather =
      best_half(all, demand.gathered_bytes, demand.all_gathers, gather_part,
                [&](Collective half) { return !runtime || half != Collective::kInNetwork; });
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
  const LinkLoad link = cost.fullest();
  dimension.all_reduce_rate = {link.seconds_per_byte, cost.latency_s, link.burst};
  dimension.reduce_scatter_rate = scatter.rate;
  dimension.all_gather_rate = gather.rate;
  dimension.bottleneck = bottleneck_of(link);
  return dimension;
}

bool is_paper(const Options& options) { return options.mode != CostMode::kLinkLoad; }

// The cost if the bandwidth is given: only equation 2 remains.
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
  cost.all_reduce_rate = {bottleneck.seconds_per_byte, 0, {}};
  cost.reduce_scatter_rate = cost.all_gather_rate = {bottleneck.seconds_per_byte / 2, 0, {}};
  cost.bottleneck = bottleneck;
  return cost;
}

Rate rate_of(const MeasuredCollective& measured) {
  return {1 / measured.bandwidth.value, measured.latency_s, {}};
}

Rate half_rate(const std::optional<MeasuredCollective>& measured, const Rate& all_reduce,
               double part) {
  if (measured) return rate_of(*measured);
  return {part * all_reduce.seconds_per_byte, part * all_reduce.seconds, {}};
}

DimensionCost measured_cost(const Demand& demand, const MeasuredDimension& measured,
                            Collective algorithm) {
  DimensionCost cost;
  cost.collective = algorithm;
  if (demand.reduce_scatters > 0) cost.reduce_scatter = algorithm;
  if (demand.all_gathers > 0) cost.all_gather = algorithm;
  cost.bytes = demand.bytes();
  cost.collectives = demand.operations();
  cost.all_reduce_rate = rate_of(measured.all_reduce);
  cost.reduce_scatter_rate =
      half_rate(measured.reduce_scatter, cost.all_reduce_rate, scatter_part(algorithm));
  cost.all_gather_rate =
      half_rate(measured.all_gather, cost.all_reduce_rate, gather_part(algorithm));
  const auto add = [&cost](const Rate& rate, double bytes, double operations) {
    cost.bandwidth_seconds += bytes * rate.seconds_per_byte;
    cost.latency_seconds += operations * rate.seconds;
  };
  add(cost.all_reduce_rate, demand.all_reduced_bytes, demand.all_reduces);
  add(cost.reduce_scatter_rate, demand.scattered_bytes, demand.reduce_scatters);
  add(cost.all_gather_rate, demand.gathered_bytes, demand.all_gathers);
  cost.bottleneck = {LinkRole::kGroup, 0, 1, 1, cost.all_reduce_rate.seconds_per_byte, {}};
  return cost;
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

Accounting accounting_of(const Options& options, Collective collective) {
  if (volume_of(options) == Volume::kEquation2) return Accounting::kEquation2;
  const bool scatters =
      options.runtime && collective != Collective::kInNetwork && collective != Collective::kGloo;
  return options.fused.value_or(scatters) ? Accounting::kFused : Accounting::kPlain;
}

CollectiveSet allowed_on(const Options& options, Dimension dimension) {
  CollectiveSet allowed = dimension == Dimension::k1 ? options.dimension1 : options.dimension2;
  if (options.runtime) allowed.hierarchical = false;
  return allowed;
}

// Norms and losses are reduced in float32 or a wider type.
double statistics_bytes(const CostInputs& inputs) {
  return std::max(4u, inputs.model.bytes_per_element);
}

EndsVolume ends_of(const CostInputs& inputs, Mesh mesh, Collective collective) {
  if (volume_of(inputs.options) == Volume::kEquation2) return {};
  return ends_volume(inputs.model, inputs.tokens, mesh, inputs.options.whole_logits,
                     inputs.options.sequence_parallel, accounting_of(inputs.options, collective));
}

Demand ends_demand(const CostInputs& inputs, Mesh mesh, Dimension dimension,
                   Collective collective) {
  const EndsVolume volume = ends_of(inputs, mesh, collective);
  const double bytes = summed_bytes(inputs);
  const double chunks = inputs.options.chunks;
  if (dimension == Dimension::k2) {
    return {.all_reduced_bytes = volume.all_reduced2 * bytes,
            .all_reduces = volume.all_reduces2 * chunks};
  }
  return {.all_reduced_bytes = volume.all_reduced1 * bytes + volume.loss * statistics_bytes(inputs),
          .all_reduces =
              volume.all_reduces1 * chunks + volume.copies_all_reduces1 + volume.loss_all_reduces,
          .scattered_bytes = volume.reduce_scattered1 * bytes,
          .reduce_scatters = volume.reduce_scatters1 * chunks,
          .gathered_bytes = volume.all_gathered1 * inputs.model.bytes_per_element,
          .all_gathers = volume.all_gathers1 * chunks};
}

DimensionOption impossible() {
  DimensionOption option;
  option.layer.bandwidth_seconds = std::numeric_limits<double>::infinity();
  return option;
}

bool may_run(Collective algorithm, CollectiveSet allowed) {
  switch (algorithm) {
    case Collective::kRing: return allowed.ring;
    case Collective::kHierarchical: return allowed.hierarchical;
    case Collective::kInNetwork: return allowed.in_network;
    case Collective::kGloo: return allowed.gloo;
    case Collective::kNone:
    case Collective::kMeasured: break;
  }
  return true;
}

// The level of the fullest links by the model on this layout, which was not measured.
std::size_t level_by_model(const CostInputs& inputs, Mesh mesh, const MeshLayout& layout,
                           Dimension dimension, Collective algorithm) {
  if (layout.empty() || is_paper(inputs.options)) return 0;
  const std::vector<DimensionOption> options = dimension_options(inputs, mesh, layout, dimension);
  if (options.empty()) return 0;
  const auto same = std::find_if(
      options.begin(), options.end(),
      [algorithm](const DimensionOption& option) { return option.layer.collective == algorithm; });
  return (same != options.end() ? *same : options.front()).layer.bottleneck.level;
}

// The cheapest allowed collective that was measured on this mesh.
DimensionOption measured_option(const CostInputs& inputs, Mesh mesh, const MeshLayout& layout,
                                Dimension dimension) {
  DimensionOption best = impossible();
  for (const MeasuredMesh& measured : inputs.interconnect.measured) {
    if (measured.mesh != mesh ||
        !may_run(measured.algorithm, allowed_on(inputs.options, dimension))) {
      continue;
    }
    const MeasuredDimension& one =
        dimension == Dimension::k1 ? measured.dimension1 : measured.dimension2;
    const Collective algorithm = measured.algorithm;
    const DimensionOption option{
        measured_cost(layer_demand(inputs, mesh, dimension, algorithm), one, algorithm),
        measured_cost(ends_demand(inputs, mesh, dimension, algorithm), one, algorithm)};
    const auto layers = inputs.model.layers;
    if (option.step_seconds(layers) < best.step_seconds(layers)) best = option;
  }
  best.layer.bottleneck.level =
      level_by_model(inputs, mesh, layout, dimension, best.layer.collective);
  return best;
}

DimensionOption option_of(const CostInputs& inputs, Mesh mesh, const MeshLayout& layout,
                          Dimension dimension) {
  const bool is_first = dimension == Dimension::k1;
  const std::uint32_t members = is_first ? mesh.d1 : mesh.d2;
  if (members == 1) return {};
  if (is_measured(inputs, mesh)) return measured_option(inputs, mesh, layout, dimension);
  if (is_paper(inputs.options)) {
    const Demand layer = layer_demand(inputs, mesh, dimension, Collective::kRing);
    const Demand ends = ends_demand(inputs, mesh, dimension, Collective::kRing);
    const PaperBandwidths paper = paper_bandwidths(inputs.interconnect, mesh, inputs.options.mode,
                                                   inputs.options.point_to_point_correction);
    const PaperBandwidth& rate = is_first ? paper.dimension1 : paper.dimension2;
    return {paper_cost(layer, members, rate), paper_cost(ends, members, rate)};
  }
  const std::vector<DimensionOption> options = dimension_options(inputs, mesh, layout, dimension);
  return options.empty() ? impossible() : options.front();
}

// The time of the norms' statistics, with the collective of dimension 2.
double norm_seconds(const CostInputs& inputs, const DimensionCost& second, double values,
                    double operations) {
  const Rate& rate = second.all_reduce_rate;
  return values * statistics_bytes(inputs) * rate.seconds_per_byte +
         operations * inputs.options.chunks * rate.seconds;
}

}  // namespace

double summed_bytes(const CostInputs& inputs) {
  const std::uint32_t bytes = inputs.model.bytes_per_element;
  return inputs.options.runtime ? std::max(4u, bytes) : bytes;
}

std::vector<DimensionOption> dimension_options(const CostInputs& inputs, Mesh mesh,
                                               const MeshLayout& layout, Dimension dimension) {
  const GroupGeometry geometry = geometry_of(layout, dimension);
  const CollectiveSet allowed = allowed_on(inputs.options, dimension);
  CollectiveSet halves = allowed;
  // The runtime's all-gathers always use a ring.
  halves.ring |= inputs.options.runtime && !allowed.gloo;
  const auto all = allowed_all_reduces(inputs.interconnect, geometry, halves, summed_bytes(inputs));
  std::vector<DimensionOption> result;
  for (const AllReduceCost& cost : all) {
    if (cost.collective == Collective::kRing && !allowed.ring) continue;
    result.push_back({cost_with(cost, all, layer_demand(inputs, mesh, dimension, cost.collective),
                                inputs.options.runtime),
                      cost_with(cost, all, ends_demand(inputs, mesh, dimension, cost.collective),
                                inputs.options.runtime)});
  }
  // Rounding errors must not favour the more complex collective.
  const auto layers = inputs.model.layers;
  std::sort(result.begin(), result.end(), [layers](const auto& a, const auto& b) {
    const double seconds_a = comparable(a.step_seconds(layers)),
                 seconds_b = comparable(b.step_seconds(layers));
    return seconds_a != seconds_b ? seconds_a < seconds_b : a.layer.collective < b.layer.collective;
  });
  return result;
}

std::vector<DimensionCost> dimension_costs(const Interconnect& interconnect,
                                           const GroupGeometry& geometry, const Demand& demand,
                                           CollectiveSet allowed, double bytes_per_element) {
  const auto all = allowed_all_reduces(interconnect, geometry, allowed, bytes_per_element);
  std::vector<DimensionCost> result;
  result.reserve(all.size());
  for (const AllReduceCost& cost : all) result.push_back(cost_with(cost, all, demand, false));
  // Rounding errors must not favour the more complex collective.
  std::sort(result.begin(), result.end(), [](const DimensionCost& a, const DimensionCost& b) {
    const double seconds_a = comparable(a.seconds()), seconds_b = comparable(b.seconds());
    return seconds_a != seconds_b ? seconds_a < seconds_b : a.collective < b.collective;
  });
  return result;
}

LayerVolume volume_of_layer(const CostInputs& inputs, Mesh mesh, Accounting accounting) {
  const double core_copies = kv_copies_of_core(inputs.model, inputs.at_once, mesh);
  LayerVolume volume = layer_volume(inputs.model, inputs.tokens, mesh, accounting, core_copies,
                                    inputs.options.sequence_parallel);
  if (inputs.options.recompute != Recompute::kNone) {
    add_recomputed(inputs.model, inputs.tokens, mesh, accounting, core_copies,
                   inputs.options.recompute == Recompute::kFull, volume);
  }
  return volume;
}

Demand layer_demand(const CostInputs& inputs, Mesh mesh, Dimension dimension,
                    Collective collective) {
  const LayerVolume volume =
      volume_of_layer(inputs, mesh, accounting_of(inputs.options, collective));
  const double summed = summed_bytes(inputs);
  // Each chunk moves its part of the bytes in a separate operation.
  const double chunks = inputs.options.chunks;
  if (dimension == Dimension::k1) {
    return {.all_reduced_bytes = volume.all_reduced1 * summed,
            .all_reduces = volume.all_reduces1 * chunks + volume.copies_all_reduces1,
            .scattered_bytes = volume.reduce_scattered1 * summed,
            .reduce_scatters = volume.reduce_scatters1 * chunks,
            .gathered_bytes = volume.all_gathered1 * inputs.model.bytes_per_element,
            .all_gathers = volume.all_gathers1 * chunks};
  }
  return {.all_reduced_bytes = volume.all_reduced2 * summed,
          .all_reduces = volume.all_reduces2 * chunks,
          .scattered_bytes = volume.reduce_scattered2 * summed,
          .reduce_scatters = volume.reduce_scatters2 * chunks,
          .gathered_bytes = volume.all_gathered2 * inputs.model.bytes_per_element,
          .all_gathers = volume.all_gathers2 * chunks};
}

bool is_measured(const CostInputs& inputs, Mesh mesh) {
  const CollectiveSet first = allowed_on(inputs.options, Dimension::k1);
  const CollectiveSet second = allowed_on(inputs.options, Dimension::k2);
  bool has_first = mesh.d1 == 1, has_second = mesh.d2 == 1;
  for (const MeasuredMesh& measured : inputs.interconnect.measured) {
    if (measured.mesh != mesh) continue;
    has_first |= may_run(measured.algorithm, first);
    has_second |= may_run(measured.algorithm, second);
  }
  return has_first && has_second && mesh.size() > 1;
}

LayerCost layer_cost(const CostInputs& inputs, Mesh mesh, const MeshLayout& layout) {
  const DimensionOption first = option_of(inputs, mesh, layout, Dimension::k1);
  const DimensionOption second = option_of(inputs, mesh, layout, Dimension::k2);
  const LayerVolume layer =
      volume_of_layer(inputs, mesh, accounting_of(inputs.options, second.layer.collective));
  const EndsVolume volume = ends_of(inputs, mesh, first.layer.collective);
  const auto norms = [&](double values, double operations) {
    return norm_seconds(inputs, second.layer, values, operations);
  };
  LayerCost cost;
  cost.dimension1 = first.layer;
  cost.dimension2 = second.layer;
  cost.norm_seconds = norms(layer.norm, layer.norm_all_reduces);
  cost.seconds = cost.dimension1.seconds() + cost.dimension2.seconds();
  EndsCost& ends = cost.ends;
  ends = {.bytes1 = first.ends.bytes,
          .bytes2 = second.ends.bytes,
          .seconds1 = first.ends.seconds(),
          .seconds2 = second.ends.seconds(),
          .norm_seconds = norms(volume.norm, volume.norm_all_reduces),
          .seconds = first.ends.seconds() + second.ends.seconds(),
          .logits_rate = first.ends.all_gather_rate};
  if (inputs.options.count_norm_statistics) {
    cost.seconds += cost.norm_seconds;
    ends.seconds += ends.norm_seconds;
  }
  cost.step_seconds = inputs.micro_batches * (inputs.model.layers * cost.seconds + ends.seconds);
  if (!is_paper(inputs.options) && inputs.interconnect.device.flops_per_second > 0 &&
      std::isfinite(cost.step_seconds)) {
    cost.step = step_time(inputs, mesh, cost);
    cost.step_seconds = cost.step.seconds;
  }
  return cost;
}

}  // namespace atp::planner
