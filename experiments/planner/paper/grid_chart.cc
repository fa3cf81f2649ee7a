#include <algorithm>

#include "experiments/planner/paper/chart.h"
#include "experiments/planner/paper/chart_frame.h"

namespace atp {
namespace {

constexpr double kCellHeight = 30;

double cell_width(const GridChart& chart) {
  double width = 48;
  for (const std::string& name : chart.columns) width = std::max(width, text_width(name, 12) + 12);
  for (const auto& row : chart.cells) {
    for (const Cell& cell : row) width = std::max(width, text_width(cell.text, 12) + 14);
  }
  return width;
}

}  // namespace

std::string draw(const GridChart& chart) {
  const double cell = cell_width(chart);
  double names = 0;
  for (const std::string& name : chart.rows) names = std::max(names, text_width(name, 12));
  const double left = 44 + names;
  const double width =
      std::max({left + cell * static_cast<double>(chart.columns.size()) + 24,
                32 + text_width(chart.title, 17), 32 + text_width(chart.subtitle, 12),
                32 + text_width(chart.y_label, 13)});
  std::vector<LegendEntry> legend;
  legend.reserve(chart.hue_names.size());
  for (std::size_t i = 0; i < chart.hue_names.size(); ++i) {
    legend.push_back({chart.hue_names[i],
                      shaded_color(i, chart.legend_shades.empty() ? 0.8 : chart.legend_shades[i])});
  }
  Svg probe(width, 10);
  double top = draw_title(probe, chart.title, chart.subtitle);
  top += draw_legend(probe, {16, top}, width - 32, legend) + 30;
  const double bottom = top + kCellHeight * static_cast<double>(chart.rows.size());

  Svg svg(width, bottom + 56);
  draw_legend(svg, {16, draw_title(svg, chart.title, chart.subtitle)}, width - 32, legend);
  for (std::size_t row = 0; row < chart.rows.size(); ++row) {
    const double y = top + kCellHeight * static_cast<double>(row);
    svg.text({left - 10, y + 19}, chart.rows[row], {.anchor = Anchor::kEnd, .color = "#666"});
    for (std::size_t column = 0; column < chart.columns.size(); ++column) {
      const Cell& value = chart.cells[row][column];
      const double x = left + cell * static_cast<double>(column);
      svg.rect({x, y}, cell, kCellHeight,
               value.text.empty() ? "#f4f4f4" : shaded_color(value.hue, value.shade), "#fff");
      svg.text({x + cell / 2, y + 19}, value.text,
               {.anchor = Anchor::kMiddle, .color = value.shade > 0.55 ? "#fff" : "#222"});
    }
  }
  for (std::size_t column = 0; column < chart.columns.size(); ++column) {
    svg.text({left + cell * (static_cast<double>(column) + 0.5), bottom + 17},
             chart.columns[column], {.anchor = Anchor::kMiddle, .color = "#666"});
  }
  svg.text({left + cell * static_cast<double>(chart.columns.size()) / 2, bottom + 40},
           chart.x_label, {.size = 13, .anchor = Anchor::kMiddle});
  svg.text({16, top - 10}, chart.y_label, {.size = 13});
  return svg.finish();
}

}  // namespace atp
