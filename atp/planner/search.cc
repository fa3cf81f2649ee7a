#include "atp/planner/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "atp/planner/layer_cost.h"

namespace atp::planner {
namespace {

void split_level(const Interconnect& interconnect, MeshLayout& layout,
                 const std::function<void(const MeshLayout&)>& visit) {
  if (layout.size() == interconnect.levels.size()) {
    visit(layout);
    return;
  }
  const std::uint32_t count = interconnect.levels[layout.size()].count;
  for (std::uint32_t d1 = count; d1 > 0; --d1) {
    if (count % d1 != 0) continue;
    layout.push_back({d1, count / d1});
    split_level(interconnect, layout, visit);
    layout.pop_back();
  }
}

// Orders layouts: larger d1 on the upper levels first.
bool comes_first(const MeshLayout& a, const MeshLayout& b) {
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const LevelSplit& x, const LevelSplit& y) { return x.d1 > y.d1; });
}

// The layout of a measured mesh: ranks in device order, as `atp plan calibrate` runs them; if there
// is no such layout, the best one.
MeshLayout layout_of_measured(const CostInputs& inputs, Mesh mesh) {
  MeshLayout layout = contiguous_layout(inputs.interconnect, mesh);
  if (!layout.empty() || inputs.options.mode != CostMode::kLinkLoad) return layout;
  Interconnect unmeasured = inputs.interconnect;
  unmeasured.measured.clear();
  const CostInputs modelled{unmeasured,      inputs.model,   inputs.options,      inputs.tokens,
                            inputs.sequence, inputs.at_once, inputs.micro_batches};
  const std::vector<CostedMesh> found =
      search(modelled, [mesh](Mesh candidate) { return candidate == mesh; });
  return found.empty() ? MeshLayout{} : found.front().layout;
}

// The paper's modes and measured meshes need no search over layouts.
bool needs_no_layout(const CostInputs& inputs, Mesh mesh) {
  return inputs.options.mode != CostMode::kLinkLoad || is_measured(inputs, mesh);
}

}  // namespace

void for_each_layout(const Interconnect& interconnect,
                     const std::function<void(const MeshLayout&)>& visit) {
  MeshLayout layout;
  layout.reserve(interconnect.levels.size());
  split_level(interconnect, layout, visit);
}

std::size_t layout_count(const Interconnect& interconnect) {
  std::size_t layouts = 1;
  for (const Level& level : interconnect.levels) {
    layouts *= meshes_of(level.count).size();
  }
  return layouts;
}

MeshLayout contiguous_layout(const Interconnect& interconnect, Mesh mesh) {
  MeshLayout layout;
  std::uint32_t left = mesh.d1;
  for (const Level& level : interconnect.levels) {
    const std::uint32_t d1 = std::gcd(left, level.count);
    // Dimension 1 takes whole levels from the top, and may share only the last of them.
    if (d1 != level.count && d1 != left) return {};
    layout.push_back({d1, level.count / d1});
    left /= d1;
  }
  return layout;
}

std::vector<Mesh> meshes_of(std::uint64_t devices) {
  std::vector<Mesh> meshes;
  for (std::uint64_t d2 = 1; d2 <= devices; ++d2) {
    if (devices % d2 != 0) continue;
    meshes.push_back({static_cast<std::uint32_t>(devices / d2), static_cast<std::uint32_t>(d2)});
  }
  return meshes;
}

bool is_better(const CostedMesh& a, const CostedMesh& b) {
  const double seconds_a = comparable(a.cost.step_seconds),
               seconds_b = comparable(b.cost.step_seconds);
  if (seconds_a != seconds_b) return seconds_a < seconds_b;
  if (a.mesh.d1 != b.mesh.d1) return a.mesh.d1 > b.mesh.d1;
  if (a.cost.dimension1.collective != b.cost.dimension1.collective) {
    return a.cost.dimension1.collective < b.cost.dimension1.collective;
  }
  if (a.cost.dimension2.collective != b.cost.dimension2.collective) {
    return a.cost.dimension2.collective < b.cost.dimension2.collective;
  }
  return comes_first(a.layout, b.layout);
}

std::vector<CostedMesh> search(const CostInputs& inputs, const std::function<bool(Mesh)>& wanted) {
  std::vector<CostedMesh> found;
  std::unordered_map<std::uint32_t, std::size_t> place_of_d1;
  for (const Mesh mesh : meshes_of(device_count(inputs.interconnect))) {
    if (!wanted(mesh)) continue;
    if (needs_no_layout(inputs, mesh)) {
      found.push_back({mesh, contiguous_layout(inputs.interconnect, mesh),
                       layer_cost(inputs, mesh, layout_of_measured(inputs, mesh))});
    } else {
      place_of_d1[mesh.d1] = found.size();
      found.push_back({mesh, {}, {}});
    }
  }
  if (!place_of_d1.empty()) {
    for_each_layout(inputs.interconnect, [&](const MeshLayout& layout) {
      const Mesh mesh = mesh_of(layout);
      const auto place = place_of_d1.find(mesh.d1);
      if (place == place_of_d1.end()) return;
      CostedMesh& best = found[place->second];
      CostedMesh candidate{mesh, layout, layer_cost(inputs, mesh, layout)};
      if (best.layout.empty() || is_better(candidate, best)) best = std::move(candidate);
    });
  }
  std::erase_if(found,
                [](const CostedMesh& mesh) { return !std::isfinite(mesh.cost.step_seconds); });
  // The model is optimistic: what it says of one mesh does not beat a measurement of another.
  const bool measured_first = inputs.options.mode == CostMode::kLinkLoad;
  std::sort(found.begin(), found.end(), [&](const CostedMesh& one, const CostedMesh& other) {
    const bool is_first = measured_first && is_measured(inputs, one.mesh);
    const bool other_is = measured_first && is_measured(inputs, other.mesh);
    return is_first == other_is ? is_better(one, other) : is_first;
  });
  return found;
}

}  // namespace atp::planner
