#include <algorithm>

#include "experiments/planner/paper/chart.h"
#include "experiments/planner/paper/chart_frame.h"

namespace atp {
namespace {

constexpr double kLineChartWidth = 760;
constexpr double kPlotHeight = 360;
constexpr double kLeft = 84;
constexpr double kRight = 24;

struct Range {
  double low = 0;
  double high = 0;
};

template <class Pick>
Range range_of(const LineChart& chart, Pick&& pick) {
  Range range{.low = 1e300, .high = -1e300};
  for (const Series& series : chart.series) {
    for (const auto& point : series.points) {
      range.low = std::min(range.low, pick(point));
      range.high = std::max(range.high, pick(point));
    }
  }
  return range.low > range.high ? Range{.low = 1, .high = 2} : range;
}

void draw_axes(Svg& svg, const LineChart& chart, const AxisMap& x, const AxisMap& y, double top) {
  const double bottom = top + kPlotHeight;
  for (const double tick : y.ticks()) {
    svg.line({kLeft, y(tick)}, {kLineChartWidth - kRight, y(tick)}, "#e4e4e4");
    svg.text({kLeft - 8, y(tick) + 4}, tick_text(tick), {.anchor = Anchor::kEnd, .color = "#666"});
  }
  for (const double tick : x.ticks()) {
    svg.line({x(tick), bottom}, {x(tick), bottom + 5}, "#999");
    svg.text({x(tick), bottom + 19}, tick_text(tick), {.anchor = Anchor::kMiddle, .color = "#666"});
  }
  svg.line({kLeft, bottom}, {kLineChartWidth - kRight, bottom}, "#999");
  svg.text({(kLeft + kLineChartWidth - kRight) / 2, bottom + 40}, chart.x.label,
           {.size = 13, .anchor = Anchor::kMiddle});
  svg.text({22, top + kPlotHeight / 2}, chart.y.label,
           {.size = 13, .anchor = Anchor::kMiddle, .rotate = -90});
}

void draw_series(Svg& svg, const Series& series, std::string_view color, const AxisMap& x,
                 const AxisMap& y) {
  std::vector<Point> points;
  points.reserve(series.points.size());
  for (const auto& [at, value] : series.points) points.push_back({x(at), y(value)});
  svg.polyline(points, color, series.dashed);
  for (const Point& point : points) svg.circle(point, 3, color);
}

}  // namespace

std::string draw(const LineChart& chart) {
  std::vector<LegendEntry> legend;
  legend.reserve(chart.series.size());
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    legend.push_back({chart.series[i].name, std::string(series_color(i))});
  }
  Svg probe(kLineChartWidth, 10);
  double top = draw_title(probe, chart.title, chart.subtitle);
  top += draw_legend(probe, {16, top}, kLineChartWidth - 32, legend) + 14;

  Svg svg(kLineChartWidth, top + kPlotHeight + 56);
  const double below_title = draw_title(svg, chart.title, chart.subtitle);
  draw_legend(svg, {16, below_title}, kLineChartWidth - 32, legend);
  const Range xs = range_of(chart, [](const auto& point) { return point.first; });
  const Range ys = range_of(chart, [](const auto& point) { return point.second; });
  const AxisMap x(chart.x, xs.low, xs.high, kLeft, kLineChartWidth - kRight);
  const double headroom = chart.y.scale == Scale::kLinear ? ys.high * 1.06 : ys.high * 1.3;
  const AxisMap y(chart.y, ys.low, headroom, top + kPlotHeight, top);
  draw_axes(svg, chart, x, y, top);
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    draw_series(svg, chart.series[i], series_color(i), x, y);
  }
  return svg.finish();
}

}  // namespace atp
