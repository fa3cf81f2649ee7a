#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/planner/paper/chart.h"
#include "experiments/planner/paper/svg.h"

// What the charts share: colours, title, legend, and the map from values to pixels.

namespace atp {

// Hues that people with any colour vision can tell apart (Okabe and Ito), the calm ones first.
std::string_view series_color(std::size_t index);
// The hue mixed with white: shade 0 is pale, 1 the hue itself.
std::string shaded_color(std::size_t hue, double shade);

// Title and subtitle; returns the height that they take.
double draw_title(Svg& svg, std::string_view title, std::string_view subtitle);

struct LegendEntry {
  std::string name;
  std::string color;
};
// One row or more from `at` on, within `width`; returns the height.
double draw_legend(Svg& svg, Point at, double width, std::span<const LegendEntry> entries);

// Values to pixels along one axis.
class AxisMap {
 public:
  AxisMap(const Axis& axis, double least, double most, double from, double to);

  double operator()(double value) const;
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  double position(double value) const;  // on the scale, before the pixels

  Scale scale_;
  double low_;
  double high_;
  double from_;
  double to_;
  std::vector<double> ticks_;
};

std::string tick_text(double value);

}  // namespace atp
