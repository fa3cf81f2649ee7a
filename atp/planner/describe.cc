#include "atp/planner/layer_cost.h"
#include "atp/planner/text.h"

namespace atp::planner {
namespace {

std::string rate_text(double bytes_per_second) {
  return number_text(bytes_per_second / 1e9) + " GB/s per direction";
}

std::string level_text(const Interconnect& interconnect, std::size_t index) {
  return "level " + std::to_string(index + 1) + " of " +
         std::to_string(interconnect.levels.size()) + ", " +
         quoted(interconnect.levels[index].name) + " (" +
         to_string(interconnect.levels[index].kind) + ")";
}

std::string link_text(const Interconnect& interconnect, const Bottleneck& bottleneck) {
  const std::string level = level_text(interconnect, bottleneck.level);
  switch (bottleneck.role) {
    case LinkRole::kNone: return "nothing is sent";
    case LinkRole::kUplink: return "a child's link to its switch on " + level;
    case LinkRole::kDirect: return "a link between siblings on " + level;
    case LinkRole::kServer: return "the link of a server's host on " + level;
    case LinkRole::kSwitchHost: return "the link of a switch's host on " + level;
    case LinkRole::kPointToPoint: return "the point-to-point bandwidth between devices on " + level;
    case LinkRole::kGroup: return "the group bandwidth of " + level;
  }
  return {};
}

std::string bottleneck_text(const Interconnect& interconnect, const Bottleneck& bottleneck) {
  std::string text = link_text(interconnect, bottleneck);
  if (bottleneck.role == LinkRole::kNone) return text;
  if (bottleneck.groups > 1) {
    text += ", shared by " + number_text(bottleneck.groups) + " groups";
  }
  const std::string load = factor_text(bottleneck.load);
  return text + ": it carries " +
         (load == "1" ? "a rank's tensor once" : load + " times a rank's tensor") + " at " +
         rate_text(bottleneck.load / bottleneck.seconds_per_byte);
}

// "; reduce-scatters by ring; all-gathers by ring", if these use a different collective.
std::string halves_text(const DimensionCost& chosen) {
  std::string text;
  const auto add = [&](const char* what, Collective collective) {
    if (collective == Collective::kNone || collective == chosen.collective) return;
    text += std::string("; ") + what + " by " + to_string(collective);
  };
  add("reduce-scatters", chosen.reduce_scatter);
  add("all-gathers", chosen.all_gather);
  return text;
}

std::string choice_text(const std::vector<DimensionOption>& options, std::uint32_t layers) {
  const DimensionCost& chosen = options.front().layer;
  std::string text = to_string(chosen.collective);
  if (options.size() == 1) {
    return text + ", the only collective that can run here" + halves_text(chosen);
  }
  for (std::size_t index = 1; index < options.size(); ++index) {
    const double ratio = options[index].step_seconds(layers) / options[0].step_seconds(layers);
    text += index == 1 ? ": " : ", ";
    text += to_string(options[index].layer.collective);
    text += ratio < 1 + 1e-9 ? std::string(" takes the same time")
                             : " takes " + factor_text(ratio) + " times as long";
  }
  return text + halves_text(chosen);
}

std::string why(const CostInputs& inputs, Mesh mesh, const MeshLayout& layout, Dimension dimension,
                const DimensionCost& cost) {
  if (cost.collective == Collective::kNone) return "the dimension has one rank";
  if (is_measured(inputs, mesh)) return "measured on this mesh";
  if (inputs.options.mode != CostMode::kLinkLoad) return "ring, which equation 4 assumes";
  return choice_text(dimension_options(inputs, mesh, layout, dimension), inputs.model.layers);
}

}  // namespace

void describe(const CostInputs& inputs, Mesh mesh, const MeshLayout& layout, LayerCost& cost) {
  const auto fill = [&](Dimension dimension, DimensionCost& part) {
    part.why = why(inputs, mesh, layout, dimension, part);
    part.bottleneck.text = part.bottleneck.role == LinkRole::kGroup && is_measured(inputs, mesh)
                               ? "measured: " + rate_text(1 / part.bottleneck.seconds_per_byte)
                               : bottleneck_text(inputs.interconnect, part.bottleneck);
  };
  fill(Dimension::k1, cost.dimension1);
  fill(Dimension::k2, cost.dimension2);
}

}  // namespace atp::planner
