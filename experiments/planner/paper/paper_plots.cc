#include <fmt/core.h>

#include <array>
#include <functional>
#include <utility>

#include "atp/cli/plan/sweep.h"
#include "atp/planner/paper_model.h"
#include "atp/planner/text.h"
#include "experiments/planner/paper/paper_case.h"
#include "experiments/planner/paper/paper_rows.h"

namespace atp::paper {
namespace {

using planner::Collective;
using planner::CostMode;
using planner::Interconnect;
using planner::Mesh;

constexpr std::array<std::uint32_t, 9> kDevices{4, 8, 16, 32, 64, 128, 256, 512, 1024};

// The new plots do not compare with equation 2, so they count what a layer really sends.
planner::Request exact(planner::Request request) {
  request.options.volume = planner::Volume::kExact;
  return request;
}

LineChart figure_12() {
  LineChart chart{.title = "Fig. 12: communication on a flat switch or a torus",
                  .subtitle = "2Lbsh/GroupBW is 1; ATP-i is the mesh (N/i, i), ATP-1 is Megatron's",
                  .x = {.label = "devices", .scale = Scale::kLog},
                  .y = {.label = "T"}};
  chart.x.ticks.assign(kDevices.begin(), kDevices.end());
  for (const std::uint32_t d2 : {1u, 2u, 4u}) {
    Series series{.name = fmt::format("ATP-{}", d2)};
    for (const std::uint32_t devices : kDevices) {
      series.points.emplace_back(devices,
                                 units(request(flat_switch(devices)), Mesh{devices / d2, d2}));
    }
    chart.series.push_back(std::move(series));
  }
  Series optimum{.name = "ATP-OPT", .dashed = true};
  for (const std::uint32_t devices : kDevices) {
    optimum.points.emplace_back(devices, best(request(flat_switch(devices))).units);
  }
  chart.series.push_back(std::move(optimum));
  return chart;
}

// The best mesh by number of devices.
Series best_series(std::string name,
                   const std::function<Interconnect(std::uint32_t)>& interconnect) {
  Series series{.name = std::move(name)};
  for (const std::uint32_t devices : kDevices) {
    const planner::Request asked = exact(request(interconnect(devices), CostMode::kLinkLoad));
    series.points.emplace_back(devices, best(asked).units);
  }
  return series;
}

LineChart ring_and_aggregation() {
  LineChart chart{.title = "The best mesh with rings, and with in-network aggregation",
                  .subtitle = "flat switch, links of 1 GB/s",
                  .x = {.label = "devices", .scale = Scale::kLog},
                  .y = {.label = "T"}};
  chart.x.ticks.assign(kDevices.begin(), kDevices.end());
  Series one{.name = "rings, plain 1-D", .dashed = true};
  for (const std::uint32_t devices : kDevices) {
    const planner::Request rings =
        exact(only(request(flat_switch(devices), CostMode::kLinkLoad), Collective::kRing));
    one.points.emplace_back(devices, units(rings, Mesh{devices, 1}));
  }
  chart.series = {best_series("rings", [](auto n) { return flat_switch(n); }),
                  best_series("aggregation, servers enough", aggregating_switch),
                  best_series("aggregation, servers on the workers", serving_workers), one};
  return chart;
}

std::string cell_text(const SweepPoint& point) {
  if (!point.without_aggregation) return "";
  std::string without = mesh_text(point.without_aggregation->mesh);
  if (!point.with_aggregation || point.with_aggregation->mesh == point.without_aggregation->mesh) {
    return without;
  }
  return without + " → " + mesh_text(point.with_aggregation->mesh);
}

// 0: aggregation does not help, 1: it helps on the same mesh, 2: on another mesh.
std::size_t cell_hue(const SweepPoint& point) {
  if (gain(point) <= 1) return 0;
  return point.with_aggregation->mesh == point.without_aggregation->mesh ? 1 : 2;
}

GridChart grid_of(const PlanSweep& sweep) {
  GridChart chart{.title = sweep.title,
                  .subtitle = "best mesh without → with in-network aggregation; darker gains more",
                  .x_label = sweep.count_label,
                  .y_label = "ratio of the " + sweep.factor_label + " to the described one",
                  .hue_names = {"aggregation does not help", "it helps on the same mesh",
                                "it helps on another mesh"},
                  .legend_shades = {0, 0.8, 0.8}};
  for (const std::uint32_t count : sweep.counts) chart.columns.push_back(std::to_string(count));
  for (const double factor : sweep.factors) chart.rows.push_back(fmt::format("x{:g}", factor));
  double most = 1.0001;
  for (const SweepPoint& point : sweep.points) most = std::max(most, gain(point));
  auto point = sweep.points.begin();
  for (std::size_t row = 0; row < sweep.factors.size(); ++row) {
    std::vector<Cell> cells;
    for (std::size_t column = 0; column < sweep.counts.size(); ++column, ++point) {
      cells.push_back({cell_text(*point), (gain(*point) - 1) / (most - 1), cell_hue(*point)});
    }
    chart.cells.push_back(std::move(cells));
  }
  return chart;
}

// The best meshes by number of hosts and by how much faster the links inside a host are.
std::string map_of_meshes() {
  const PlanSweep sweep = run_sweep(exact(request(hosts_of_four(), CostMode::kLinkLoad)),
                                    {.level = 0, .values = {2, 4, 8, 16, 32, 64}},
                                    {.level = 1, .values = {1, 2, 4, 8, 16, 32}});
  return draw(grid_of(sweep));
}

// The same on a flat switch, whose links differ from the servers' by a factor.
std::string map_of_servers() {
  Interconnect interconnect = aggregating_switch(8);
  interconnect.name = "a flat switch with one server host on 1 GB/s";
  interconnect.levels[0].aggregation->server_hosts = 1;
  interconnect.levels[0].aggregation->server_bandwidth = planner::gigabytes_per_second(1);
  return draw(grid_of(run_sweep(exact(request(interconnect, CostMode::kLinkLoad)),
                                {.level = 0, .values = {2, 4, 8, 16, 32, 64}},
                                {.level = 0, .values = {0.125, 0.25, 0.5, 1, 2, 4}})));
}

BarChart meshes_of(const std::string& title, const Interconnect& interconnect, CostMode mode,
                   const std::vector<Mesh>& meshes) {
  BarChart chart{.title = title,
                 .subtitle = "communication of one layer, by dimension; the best mesh in bold",
                 .value_label = "T, links in GB/s",
                 .part_names = {"dimension 1", "dimension 2"}};
  const planner::Request asked = only(request(interconnect, mode), Collective::kRing);
  const Best winner = best(asked);
  for (const Mesh& mesh : meshes) {
    const planner::LayerCost cost = planner::evaluate(asked, mesh).value().cost;
    const double total = units(asked, mesh);
    const double share = cost.seconds > 0 ? cost.dimension1.seconds() / cost.seconds : 0;
    chart.bars.push_back({.name = mesh_text(mesh),
                          .parts = {total * share, total * (1 - share)},
                          .note = fmt::format("{:.4g}", total),
                          .emphasized = mesh == winner.mesh});
  }
  return chart;
}

}  // namespace

TextTable figure_12_table() {
  TextTable table({"devices", "ATP-1", "ATP-2", "ATP-4", "ATP-OPT", "mesh"});
  for (const std::uint32_t devices : kDevices) {
    const planner::Request asked = request(flat_switch(devices));
    const Best found = best(asked);
    const auto of = [&](std::uint32_t d2) {
      return fmt::format("{:.4f}", units(asked, Mesh{devices / d2, d2}));
    };
    table.add({std::to_string(devices), of(1), of(2), of(4), fmt::format("{:.4f}", found.units),
               mesh_text(found.mesh)});
  }
  return table;
}

std::vector<Plot> plots() {
  const std::vector<Mesh> sixteen{{16, 1}, {8, 2}, {4, 4}, {2, 8}};
  const std::vector<Mesh> eight{{8, 1}, {4, 2}, {2, 4}};
  return {
      {"fig7a-meshes.svg", draw(meshes_of("Fig. 7a: four nodes of four GPUs, rings",
                                          figure_7a(100, 25), CostMode::kLinkLoad, sixteen))},
      {"fig7b-meshes.svg", draw(meshes_of("Fig. 7b: 4 x 4 torus, equations 2 to 4", figure_7b(),
                                          CostMode::kPaper, sixteen))},
      {"fig11-ic2.svg", draw(meshes_of("Fig. 11, IC2: NVLink pairs on PCIe, equations 2 to 4",
                                       ic2(600, 64), CostMode::kPaper, eight))},
      {"fig11-ic3.svg", draw(meshes_of("Fig. 11, IC3: eight on NVSwitch, equations 2 to 4",
                                       flat_switch(8), CostMode::kPaper, eight))},
      {"fig11-ic4.svg", draw(meshes_of("Fig. 11, IC4: sixteen on InfiniBand, equations 2 to 4",
                                       flat_switch(16), CostMode::kPaper, sixteen))},
      {"fig12.svg", draw(figure_12())},
      {"ring-and-aggregation.svg", draw(ring_and_aggregation())},
      {"map-of-meshes.svg", map_of_meshes()},
      {"map-of-servers.svg", map_of_servers()},
  };
}

}  // namespace atp::paper
