#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/planner/paper/chart.h"
#include "experiments/planner/paper/svg.h"

// The common parts of charts: colours, title, legend, and the mapping from values to pixels.

namespace atp {

// Hues that are distinguishable with any colour vision (Okabe and Ito), calm ones first.
std::string_view series_color(std::size_t index);
// The hue mixed with white: shade 0 is pale, 1 is the full hue.
std::string shaded_color(std::size_t hue, double shade);

// Draws title and subtitle; returns their height.
double draw_title(Svg& svg, std::string_view title, std::string_view subtitle);

struct LegendEntry {
  std::string name;
  std::string color;
};
// Draws the legend from `at` on within `width`, in one or more rows; returns its height.
double draw_legend(Svg& svg, Point at, double width, std::span<const LegendEntry> entries);

// Maps values to pixels along one axis.
class AxisMap {
 public:
  AxisMap(const Axis& axis, double least, double most, double from, double to);

  double operator()(double value) const;
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  double position(double value) const;  // on the scale, before conversion to pixels

  Scale scale_;
  double low_;
  double high_;
  double from_;
  double to_;
  std::vector<double> ticks_;
};

std::string tick_text(double value);

}  // namespace atp
