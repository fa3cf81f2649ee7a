#pragma once

#include <string>
#include <utility>
#include <vector>

// The three kinds of plots as data, and functions that draw them as SVG.

namespace atp {

enum class Scale { kLinear, kLog };

struct Axis {
  std::string label;
  Scale scale = Scale::kLinear;
  std::vector<double> ticks = {};  // empty: chosen from the data
};

// Curves over a common axis.
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
  bool dashed = false;
};
struct LineChart {
  std::string title;
  std::string subtitle;
  Axis x;
  Axis y;
  std::vector<Series> series;
};

// Horizontal bars of stacked parts, with a note at the end.
struct Bar {
  std::string name;
  std::vector<double> parts;
  std::string note;
  bool emphasized = false;
};
struct BarChart {
  std::string title;
  std::string subtitle;
  std::string value_label;
  std::vector<std::string> part_names;
  std::vector<Bar> bars;
};

// A matrix of cells: text on a shade from 0 (pale) to 1 (full) of the numbered hue.
struct Cell {
  std::string text;
  double shade = 0;
  std::size_t hue = 0;
};
struct GridChart {
  std::string title;
  std::string subtitle;
  std::string x_label;
  std::string y_label;
  std::vector<std::string> columns;
  std::vector<std::string> rows;
  std::vector<std::vector<Cell>> cells;     // [row][column]
  std::vector<std::string> hue_names = {};  // the legend; empty: none
  std::vector<double> legend_shades = {};   // those of the cells; empty: strong
};

std::string draw(const LineChart& chart);
std::string draw(const BarChart& chart);
std::string draw(const GridChart& chart);

}  // namespace atp
