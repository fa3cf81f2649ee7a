#include <fmt/format.h>

#include <algorithm>

#include "atp/cli/plan/plan_text.h"
#include "atp/cli/plan/sweep.h"

namespace atp {
namespace {

using planner::Collective;

std::string collectives_text(const SweepAnswer& answer) {
  if (answer.dimension2 == Collective::kNone) return collective_text(answer.dimension1);
  if (answer.dimension1 == Collective::kNone) return collective_text(answer.dimension2);
  return collective_text(answer.dimension1) + "+" + collective_text(answer.dimension2);
}

void add_answer(const std::optional<SweepAnswer>& answer, std::vector<std::string>& row) {
  row.push_back(answer ? mesh_text(answer->mesh) : "none possible");
  row.push_back(answer ? collectives_text(*answer) : "");
  row.push_back(answer ? duration_for_people(answer->seconds) : "");
}

void add_raw(const std::optional<SweepAnswer>& answer, std::vector<std::string>& row) {
  row.push_back(answer ? std::to_string(answer->mesh.d1) : "");
  row.push_back(answer ? std::to_string(answer->mesh.d2) : "");
  row.push_back(answer ? planner::to_string(answer->dimension1) : "");
  row.push_back(answer ? planner::to_string(answer->dimension2) : "");
  row.push_back(answer ? fmt::format("{}", answer->seconds) : "");
}

double gain(const SweepPoint& point) {
  if (!point.without_aggregation || !point.with_aggregation) return 1;
  if (point.with_aggregation->seconds <= 0) return 1;
  return point.without_aggregation->seconds / point.with_aggregation->seconds;
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

constexpr double kPlainShade = 0.25;

// A colour for each d2 that is best somewhere.
GridChart colored_by_d2(GridChart chart, const Sweep& sweep) {
  std::vector<std::uint32_t> sides;
  for (const SweepPoint& point : sweep.points) {
    if (point.without_aggregation) sides.push_back(point.without_aggregation->mesh.d2);
  }
  std::sort(sides.begin(), sides.end());
  sides.erase(std::unique(sides.begin(), sides.end()), sides.end());
  for (const std::uint32_t side : sides) chart.hue_names.push_back(fmt::format("d2 = {}", side));
  chart.legend_shades.assign(sides.size(), kPlainShade);
  auto point = sweep.points.begin();
  for (std::size_t row = 0; row < sweep.factors.size(); ++row) {
    std::vector<Cell> cells;
    for (std::size_t column = 0; column < sweep.counts.size(); ++column, ++point) {
      Cell cell{.text = cell_text(*point), .shade = kPlainShade};
      if (point->without_aggregation) {
        const auto side =
            std::lower_bound(sides.begin(), sides.end(), point->without_aggregation->mesh.d2);
        cell.hue = static_cast<std::size_t>(side - sides.begin());
      }
      cells.push_back(std::move(cell));
    }
    chart.cells.push_back(std::move(cells));
  }
  return chart;
}

std::string ratio_label(const Sweep& sweep) {
  return "ratio of the " + sweep.factor_label + " to the described one";
}

GridChart grid_of(const Sweep& sweep) {
  GridChart chart{.title = sweep.title,
                  .subtitle = "best mesh (d1,d2) of each",
                  .x_label = sweep.count_label,
                  .y_label = ratio_label(sweep)};
  if (sweep.aggregates) {
    chart.subtitle = "best mesh without → with in-network aggregation; darker gains more";
    chart.hue_names = {"aggregation does not help", "it helps on the same mesh",
                       "it helps on another mesh"};
    chart.legend_shades = {0, 0.8, 0.8};
  }
  for (const std::uint32_t count : sweep.counts) chart.columns.push_back(std::to_string(count));
  for (const double factor : sweep.factors) chart.rows.push_back(fmt::format("x{:g}", factor));
  if (!sweep.aggregates) return colored_by_d2(std::move(chart), sweep);
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

LineChart curve_of(const Sweep& sweep) {
  const bool by_count = sweep.counts.size() > 1;
  LineChart chart{.title = "Communication of one layer on the best mesh",
                  .subtitle = sweep.title,
                  .x = {.label = by_count ? "devices" : ratio_label(sweep), .scale = Scale::kLog},
                  .y = {.label = "milliseconds"}};
  Series without{.name = "without in-network aggregation"};
  Series with{.name = "with in-network aggregation"};
  for (const SweepPoint& point : sweep.points) {
    const double x = by_count ? static_cast<double>(point.devices) : point.factor;
    chart.x.ticks.push_back(x);
    if (point.without_aggregation) {
      without.points.emplace_back(x, point.without_aggregation->seconds * 1e3);
    }
    if (point.with_aggregation) {
      with.points.emplace_back(x, point.with_aggregation->seconds * 1e3);
    }
  }
  chart.series.push_back(without);
  if (sweep.aggregates) chart.series.push_back(with);
  return chart;
}

}  // namespace

TextTable sweep_table(const Sweep& sweep) {
  std::vector<std::string> header{"devices"};
  if (!sweep.factor_label.empty()) header.push_back(sweep.factor_label);
  header.insert(header.end(), {"best mesh", "by", "a layer"});
  if (sweep.aggregates) header.insert(header.end(), {"with aggregation", "by", "a layer", "gain"});
  TextTable table(header);
  for (const SweepPoint& point : sweep.points) {
    std::vector<std::string> row{std::to_string(point.devices)};
    if (!sweep.factor_label.empty()) row.push_back(fmt::format("x{:g}", point.factor));
    add_answer(point.without_aggregation, row);
    if (sweep.aggregates) {
      add_answer(point.with_aggregation, row);
      row.push_back(point.without_aggregation && point.with_aggregation
                        ? fmt::format("{:.2f}", gain(point))
                        : "-");
    }
    table.add(std::move(row));
  }
  return table;
}

std::string sweep_reasons(const Sweep& sweep) {
  std::string text;
  std::uint64_t said = 0;
  for (const SweepPoint& point : sweep.points) {
    if (point.reasons.empty() || point.devices == said) continue;
    said = point.devices;
    text += fmt::format("\n{} devices: {}\n", point.devices, point.reasons);
  }
  return text;
}

TextTable sweep_csv(const Sweep& sweep) {
  TextTable table({"count", "bandwidth_factor", "devices", "d1", "d2", "collective1", "collective2",
                   "seconds", "aggregation_d1", "aggregation_d2", "aggregation_collective1",
                   "aggregation_collective2", "aggregation_seconds"});
  for (const SweepPoint& point : sweep.points) {
    std::vector<std::string> row{std::to_string(point.count), fmt::format("{:g}", point.factor),
                                 std::to_string(point.devices)};
    add_raw(point.without_aggregation, row);
    add_raw(point.with_aggregation, row);
    table.add(std::move(row));
  }
  return table;
}

std::string draw_sweep(const Sweep& sweep) {
  if (sweep.counts.size() > 1 && sweep.factors.size() > 1) return draw(grid_of(sweep));
  return draw(curve_of(sweep));
}

}  // namespace atp
