#include <algorithm>
#include <numeric>

#include "experiments/planner/paper/chart.h"
#include "experiments/planner/paper/chart_frame.h"

namespace atp {
namespace {

constexpr double kBarChartWidth = 760;
constexpr double kRow = 30;
constexpr double kBar = 18;

double total(const Bar& bar) { return std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0); }

}  // namespace

std::string draw(const BarChart& chart) {
  double longest = 0;
  double name_width = 0;
  double note_width = 0;
  for (const Bar& bar : chart.bars) {
    longest = std::max(longest, total(bar));
    name_width = std::max(name_width, text_width(bar.name, 12));
    note_width = std::max(note_width, text_width(bar.note, 12));
  }
  std::vector<LegendEntry> legend;
  legend.reserve(chart.part_names.size());
  for (std::size_t i = 0; i < chart.part_names.size(); ++i) {
    legend.push_back({chart.part_names[i], std::string(series_color(i))});
  }
  Svg probe(kBarChartWidth, 10);
  double top = draw_title(probe, chart.title, chart.subtitle);
  top += draw_legend(probe, {16, top}, kBarChartWidth - 32, legend) + 14;
  const double bottom = top + kRow * static_cast<double>(chart.bars.size());

  Svg svg(kBarChartWidth, bottom + 52);
  draw_legend(svg, {16, draw_title(svg, chart.title, chart.subtitle)}, kBarChartWidth - 32, legend);
  const double left = 32 + name_width;
  const AxisMap x({.label = "", .ticks = {}}, 0, longest, left, kBarChartWidth - 32 - note_width);
  for (const double tick : x.ticks()) {
    svg.line({x(tick), top}, {x(tick), bottom}, "#e4e4e4");
    svg.text({x(tick), bottom + 17}, tick_text(tick), {.anchor = Anchor::kMiddle, .color = "#666"});
  }
  svg.text({(left + kBarChartWidth - 32 - note_width) / 2, bottom + 38}, chart.value_label,
           {.size = 13, .anchor = Anchor::kMiddle});
  double y = top + (kRow - kBar) / 2;
  for (const Bar& bar : chart.bars) {
    svg.text({left - 10, y + 14}, bar.name, {.anchor = Anchor::kEnd, .bold = bar.emphasized});
    double from = 0;
    for (std::size_t i = 0; i < bar.parts.size(); ++i) {
      svg.rect({x(from), y}, x(from + bar.parts[i]) - x(from), kBar, series_color(i));
      from += bar.parts[i];
    }
    svg.text({x(from) + 8, y + 14}, bar.note, {.color = "#666", .bold = bar.emphasized});
    y += kRow;
  }
  return svg.finish();
}

}  // namespace atp
