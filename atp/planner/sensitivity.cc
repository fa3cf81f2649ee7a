#include "atp/planner/sensitivity.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "atp/planner/text.h"

namespace atp::planner {
namespace {

using Quantity = Sensitivity::Quantity;

constexpr double kMinGain = 0.05;
constexpr int kSteps = 12;       // of sqrt(2): a factor of 64
constexpr int kBisections = 20;  // per step: to a millionth

std::string best_text(const CostedMesh& found) {
  std::string text = ", mesh " + mesh_text(found.mesh) + " would be best: ";
  const Collective first = found.cost.dimension1.collective;
  const Collective second = found.cost.dimension2.collective;
  if (first == second) return text + std::string(to_string(first)) + " on both dimensions";
  if (first != Collective::kNone) text += std::string(to_string(first)) + " on dimension 1";
  if (first != Collective::kNone && second != Collective::kNone) text += ", ";
  if (second != Collective::kNone) text += std::string(to_string(second)) + " on dimension 2";
  return text;
}

// This project's switches (docs/inside/protocol): 350 int32 values per Ethernet frame.
const Aggregation kOwnAggregation{
    .payload_bytes = 1400, .header_bytes = 114, .wire_bytes_per_value = 4};

class Prober {
 public:
  Prober(const CostInputs& inputs, const CostedMesh& best, const std::function<bool(Mesh)>& wanted)
      : inputs_(inputs), best_(best), wanted_(wanted) {}

  // The best mesh with one quantity multiplied by `factor`.
  std::optional<CostedMesh> best_with(Quantity quantity, std::size_t level, double factor) const {
    Interconnect changed = inputs_.interconnect;
    CostInputs inputs{changed,          inputs_.model,   inputs_.options,      inputs_.tokens,
                      inputs_.sequence, inputs_.at_once, inputs_.micro_batches};
    switch (quantity) {
      case Quantity::kBandwidth: changed.levels[level].bandwidth.value *= factor; break;
      case Quantity::kLatency:
        for (Level& each : changed.levels) each.latency_s *= factor;
        break;
      case Quantity::kTokens: inputs.tokens *= factor; break;
      case Quantity::kAggregation: toggle_aggregation(changed.levels[level]); break;
    }
    std::vector<CostedMesh> found = search(inputs, wanted_);
    if (found.empty()) return std::nullopt;
    return std::move(found.front());
  }

  // The nearest factor in one direction at which the best mesh changes.
  std::optional<Sensitivity> first_change(Quantity quantity, std::size_t level,
                                          bool upwards) const {
    const double direction = upwards ? 0.5 : -0.5;
    for (int step = 1; step <= kSteps; ++step) {
      const double exponent = direction * step;
      const auto found = best_with(quantity, level, std::exp2(exponent));
      if (found && found->mesh != best_.mesh) {
        return bisect(quantity, level, exponent - direction, exponent, *found);
      }
    }
    return std::nullopt;
  }

  std::optional<Sensitivity> aggregation_change(std::size_t level) const {
    const auto found = best_with(Quantity::kAggregation, level, 1);
    if (!found || is_same_answer(*found)) return std::nullopt;
    // Saving a few latencies is no reason to replace switches.
    const bool is_gain = found->cost.step_seconds < (1 - kMinGain) * best_.cost.step_seconds;
    const bool has_it = inputs_.interconnect.levels[level].aggregation.has_value();
    if (!has_it && found->mesh == best_.mesh && !is_gain) return std::nullopt;
    return statement(Quantity::kAggregation, level, 1, *found);
  }

 private:
  static void toggle_aggregation(Level& level) {
    if (level.aggregation) {
      level.aggregation.reset();
    } else {
      level.aggregation = kOwnAggregation;
    }
  }

  bool is_same_answer(const CostedMesh& found) const {
    return found.mesh == best_.mesh &&
           found.cost.dimension1.collective == best_.cost.dimension1.collective &&
           found.cost.dimension2.collective == best_.cost.dimension2.collective;
  }

  // Exponents of two: at `same` the mesh is the original one, at `other` it differs.
  Sensitivity bisect(Quantity quantity, std::size_t level, double same, double other,
                     CostedMesh found) const {
    for (int round = 0; round < kBisections; ++round) {
      const double middle = (same + other) / 2;
      auto probe = best_with(quantity, level, std::exp2(middle));
      if (probe && probe->mesh != best_.mesh) {
        other = middle;
        found = std::move(*probe);
      } else {
        same = middle;
      }
    }
    return statement(quantity, level, std::exp2(other), found);
  }

  Sensitivity statement(Quantity quantity, std::size_t level, double factor,
                        const CostedMesh& found) const {
    return {.quantity = quantity,
            .level = level,
            .factor = factor,
            .mesh = found.mesh,
            .dimension1 = found.cost.dimension1.collective,
            .dimension2 = found.cost.dimension2.collective,
            .text = change_text(quantity, level, factor) + best_text(found)};
  }

  std::string change_text(Quantity quantity, std::size_t level, double factor) const {
    const Level& changed = inputs_.interconnect.levels[level];
    const std::string times = "with " + factor_text(factor) + " times the ";
    switch (quantity) {
      case Quantity::kBandwidth: return times + "bandwidth of " + quoted(changed.name);
      case Quantity::kLatency: return times + "latencies";
      case Quantity::kTokens: return times + "tokens";
      case Quantity::kAggregation: break;
    }
    return changed.aggregation ? "if the switches of " + quoted(changed.name) + " did not aggregate"
                               : "if the switches of " + quoted(changed.name) +
                                     " aggregated int32 values over Ethernet, with enough servers";
  }

  const CostInputs& inputs_;
  const CostedMesh& best_;
  const std::function<bool(Mesh)>& wanted_;
};

// PCIe switches cannot sum. They are recognized by the name of the level or of one above.
bool is_pcie(const Interconnect& interconnect, std::size_t level) {
  const auto says_pcie = [](const Level& each) {
    std::string name = each.name;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return name.find("pcie") != std::string::npos;
  };
  const auto& levels = interconnect.levels;
  return std::any_of(levels.begin(), levels.begin() + static_cast<std::ptrdiff_t>(level) + 1,
                     says_pcie);
}

bool has_latency(const Interconnect& interconnect) {
  for (const Level& level : interconnect.levels) {
    if (level.latency_s > 0) return true;
  }
  return false;
}

}  // namespace

std::vector<Sensitivity> sensitivities_of(const CostInputs& inputs, const CostedMesh& best,
                                          const std::function<bool(Mesh)>& wanted) {
  std::vector<Sensitivity> result;
  if (layout_count(inputs.interconnect) > kMaxLayoutsProbed) return result;
  const Prober prober(inputs, best, wanted);
  const auto add = [&result](std::optional<Sensitivity> found) {
    if (found) result.push_back(std::move(*found));
  };
  const auto add_both_ways = [&](Quantity quantity, std::size_t level) {
    add(prober.first_change(quantity, level, true));
    add(prober.first_change(quantity, level, false));
  };
  const auto& levels = inputs.interconnect.levels;
  // With one level, and without latencies, scaling the bandwidth scales all costs.
  const bool is_link_load = inputs.options.mode == CostMode::kLinkLoad;
  const bool latency = is_link_load && has_latency(inputs.interconnect);
  for (std::size_t level = 0; level < levels.size(); ++level) {
    if (levels.size() > 1 || latency || inputs.interconnect.point_to_point) {
      add_both_ways(Quantity::kBandwidth, level);
    }
  }
  if (latency) {
    add_both_ways(Quantity::kLatency, 0);
    add_both_ways(Quantity::kTokens, 0);
  }
  for (std::size_t level = 0; is_link_load && level < levels.size(); ++level) {
    if (levels[level].kind != LevelKind::kSwitch) continue;
    if (!is_pcie(inputs.interconnect, level)) add(prober.aggregation_change(level));
  }
  return result;
}

}  // namespace atp::planner
