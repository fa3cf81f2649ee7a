#include "experiments/planner/paper/svg.h"

#include <fmt/core.h>

namespace atp {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string_view anchor_name(Anchor anchor) {
  switch (anchor) {
    case Anchor::kStart: return "start";
    case Anchor::kMiddle: return "middle";
    case Anchor::kEnd: return "end";
  }
  return "start";
}

}  // namespace

Svg::Svg(double width, double height)
    : body_(fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:g}" height="{1:g}" )"
                        R"(viewBox="0 0 {0:g} {1:g}" font-family="DejaVu Sans, Helvetica, Arial, )"
                        R"(sans-serif">)"
                        "\n",
                        width, height)) {
  rect({0, 0}, width, height, "#fff");
}

void Svg::rect(Point corner, double width, double height, std::string_view fill,
               std::string_view stroke) {
  body_ += fmt::format(
      R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}" stroke="{}"/>)"
      "\n",
      corner.x, corner.y, width, height, fill, stroke);
}

void Svg::line(Point from, Point to, std::string_view color, double width) {
  body_ += fmt::format(
      R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="{:g}"/>)"
      "\n",
      from.x, from.y, to.x, to.y, color, width);
}

void Svg::polyline(std::span<const Point> points, std::string_view color, bool dashed) {
  body_ += fmt::format(
      R"(<polyline fill="none" stroke="{}" stroke-width="2" stroke-linejoin="round"{} points=")",
      color, dashed ? R"( stroke-dasharray="6 4")" : "");
  for (const Point& point : points) body_ += fmt::format("{:.1f},{:.1f} ", point.x, point.y);
  body_ += "\"/>\n";
}

void Svg::circle(Point center, double radius, std::string_view fill) {
  body_ += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="{:g}" fill="{}"/>)"
                       "\n",
                       center.x, center.y, radius, fill);
}

void Svg::text(Point at, std::string_view text, const TextStyle& style) {
  const std::string turn =
      style.rotate == 0
          ? ""
          : fmt::format(R"_( transform="rotate({:g} {:.1f} {:.1f})")_", style.rotate, at.x, at.y);
  body_ += fmt::format(
      R"(<text x="{:.1f}" y="{:.1f}" font-size="{:g}" text-anchor="{}" fill="{}"{}{}>{}</text>)"
      "\n",
      at.x, at.y, style.size, anchor_name(style.anchor), style.color,
      style.bold ? R"( font-weight="bold")" : "", turn, escaped(text));
}

double text_width(std::string_view text, double size) {
  // UTF-8 continuation bytes have no width.
  std::size_t letters = 0;
  for (const char c : text) letters += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  return 0.6 * size * static_cast<double>(letters);
}

}  // namespace atp
