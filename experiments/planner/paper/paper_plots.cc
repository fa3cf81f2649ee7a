#include <fmt/core.h>

#include <array>
#include <utility>

#include "atp/cli/plan/sweep.h"
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

std::string four_digits(double value) { return fmt::format("{:.4f}", value); }

// The new plots do not compare with equation 2, so they count what a layer really sends.
planner::Request exact(planner::Request request) {
  request.options.volume = planner::Volume::kExact;
  return request;
}

// The cost of the best mesh by number of devices, and that of plain 1-D.
TextTable ring_and_aggregation() {
  TextTable table({"devices", "rings", "aggregation, servers enough",
                   "aggregation, servers on the workers", "rings, plain 1-D"});
  const auto best_on = [](Interconnect interconnect) {
    return four_digits(best(exact(request(std::move(interconnect), CostMode::kLinkLoad))).units);
  };
  for (const std::uint32_t devices : kDevices) {
    const planner::Request rings =
        exact(only(request(flat_switch(devices), CostMode::kLinkLoad), Collective::kRing));
    table.add({std::to_string(devices), best_on(flat_switch(devices)),
               best_on(aggregating_switch(devices)), best_on(serving_workers(devices)),
               four_digits(units(rings, Mesh{devices, 1}))});
  }
  return table;
}

// The best meshes by number of hosts and by how much faster the links inside a host are.
TextTable map_of_meshes() {
  return sweep_csv(run_sweep(exact(request(hosts_of_four(), CostMode::kLinkLoad)),
                             {.level = 0, .values = {2, 4, 8, 16, 32, 64}},
                             {.level = 1, .values = {1, 2, 4, 8, 16, 32}}));
}

// The same on a flat switch, whose links differ from the servers' by a factor.
TextTable map_of_servers() {
  Interconnect interconnect = aggregating_switch(8);
  interconnect.levels[0].aggregation->server_hosts = 1;
  interconnect.levels[0].aggregation->server_bandwidth = planner::gigabytes_per_second(1);
  return sweep_csv(run_sweep(exact(request(interconnect, CostMode::kLinkLoad)),
                             {.level = 0, .values = {2, 4, 8, 16, 32, 64}},
                             {.level = 0, .values = {0.125, 0.25, 0.5, 1, 2, 4}}));
}

// The cost of meshes with rings, by dimension.
TextTable meshes_of(const Interconnect& interconnect, CostMode mode,
                    const std::vector<Mesh>& meshes) {
  TextTable table({"mesh", "dimension 1", "dimension 2", "T", "best"});
  const planner::Request asked = only(request(interconnect, mode), Collective::kRing);
  const Best winner = best(asked);
  for (const Mesh& mesh : meshes) {
    const planner::LayerCost cost = planner::evaluate(asked, mesh).value().cost;
    const double total = units(asked, mesh);
    const double share = cost.seconds > 0 ? cost.dimension1.seconds() / cost.seconds : 0;
    table.add({mesh_text(mesh), fmt::format("{:.6g}", total * share),
               fmt::format("{:.6g}", total * (1 - share)), fmt::format("{:.4g}", total),
               mesh == winner.mesh ? "yes" : "no"});
  }
  return table;
}

}  // namespace

TextTable figure_12_table() {
  TextTable table({"devices", "ATP-1", "ATP-2", "ATP-4", "ATP-OPT", "mesh"});
  for (const std::uint32_t devices : kDevices) {
    const planner::Request asked = request(flat_switch(devices));
    const Best found = best(asked);
    const auto of = [&](std::uint32_t d2) {
      return four_digits(units(asked, Mesh{devices / d2, d2}));
    };
    table.add({std::to_string(devices), of(1), of(2), of(4), four_digits(found.units),
               mesh_text(found.mesh)});
  }
  return table;
}

std::vector<PlotTable> plot_tables() {
  const std::vector<Mesh> sixteen{{16, 1}, {8, 2}, {4, 4}, {2, 8}};
  const std::vector<Mesh> eight{{8, 1}, {4, 2}, {2, 4}};
  return {
      {"fig7a-meshes", meshes_of(figure_7a(100, 25), CostMode::kLinkLoad, sixteen)},
      {"fig7b-meshes", meshes_of(figure_7b(), CostMode::kPaper, sixteen)},
      {"fig11-ic2", meshes_of(ic2(600, 64), CostMode::kPaper, eight)},
      {"fig11-ic3", meshes_of(flat_switch(8), CostMode::kPaper, eight)},
      {"fig11-ic4", meshes_of(flat_switch(16), CostMode::kPaper, sixteen)},
      {"fig12", figure_12_table()},
      {"ring-and-aggregation", ring_and_aggregation()},
      {"map-of-meshes", map_of_meshes()},
      {"map-of-servers", map_of_servers()},
  };
}

}  // namespace atp::paper
