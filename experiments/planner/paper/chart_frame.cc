#include "experiments/planner/paper/chart_frame.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace atp {
namespace {

struct Rgb {
  int red;
  int green;
  int blue;
};
constexpr std::array<Rgb, 7> kHues{{{0, 114, 178},
                                    {213, 94, 0},
                                    {0, 158, 115},
                                    {204, 121, 167},
                                    {86, 180, 233},
                                    {230, 159, 0},
                                    {90, 90, 90}}};
constexpr std::array<std::string_view, 7> kColors{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                  "#56b4e9", "#e69f00", "#5a5a5a"};

// About five ticks at multiples of 1, 2 or 5 times a power of ten.
std::vector<double> linear_ticks(double low, double high) {
  const double raw = (high - low) / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double step = power * (raw / power < 1.5   ? 1
                               : raw / power < 3.5 ? 2
                               : raw / power < 7.5 ? 5
                                                   : 10);
  std::vector<double> ticks;
  for (double at = std::ceil(low / step - 1e-9) + 0.0; at * step <= high * (1 + 1e-9); ++at) {
    ticks.push_back(at * step);
  }
  return ticks;
}

std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks;
  for (double at = std::pow(10, std::floor(std::log10(low))); at <= high * 1.0001; at *= 10) {
    if (at >= low * 0.9999) ticks.push_back(at);
  }
  return ticks;
}

}  // namespace

std::string_view series_color(std::size_t index) { return kColors[index % kColors.size()]; }

std::string shaded_color(std::size_t hue, double shade) {
  const Rgb& full = kHues[hue % kHues.size()];
  const double weight = 0.12 + 0.88 * std::clamp(shade, 0.0, 1.0);
  const auto mix = [&](int channel) { return static_cast<int>(255 + (channel - 255) * weight); };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(full.red), mix(full.green), mix(full.blue));
}

double draw_title(Svg& svg, std::string_view title, std::string_view subtitle) {
  svg.text({16, 28}, title, {.size = 16, .color = "#111", .bold = true});
  if (subtitle.empty()) return 44;
  svg.text({16, 48}, subtitle, {.size = 12, .color = "#666"});
  return 62;
}

double draw_legend(Svg& svg, Point at, double width, std::span<const LegendEntry> entries) {
  if (entries.empty()) return 0;
  constexpr double kRow = 20;
  double x = at.x;
  double y = at.y;
  for (const LegendEntry& entry : entries) {
    const double room = 36 + text_width(entry.name, 12);
    if (x > at.x && x + room > at.x + width) {
      x = at.x;
      y += kRow;
    }
    svg.rect({x, y}, 14, 10, entry.color);
    svg.text({x + 20, y + 10}, entry.name);
    x += room;
  }
  return y + kRow - at.y;
}

AxisMap::AxisMap(const Axis& axis, double least, double most, double from, double to)
    : scale_(axis.scale), low_(least), high_(most), from_(from), to_(to), ticks_(axis.ticks) {
  if (scale_ == Scale::kLinear) low_ = std::min(0.0, low_);
  if (high_ <= low_) high_ = scale_ == Scale::kLog ? low_ * 10 : low_ + 1;
  if (ticks_.empty()) {
    ticks_ = scale_ == Scale::kLog ? log_ticks(low_, high_) : linear_ticks(low_, high_);
  }
}

double AxisMap::position(double value) const {
  return scale_ == Scale::kLog ? std::log(value) : value;
}

double AxisMap::operator()(double value) const {
  const double low = position(low_);
  return from_ + (position(value) - low) / (position(high_) - low) * (to_ - from_);
}

std::string tick_text(double value) {
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-3 || size >= 1e5)) return fmt::format("{:.0e}", value);
  return fmt::format("{:.6g}", value);
}

}  // namespace atp
