#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

// A drawing as SVG text, with the few shapes that charts need, in pixels from the upper left
// corner.

namespace atp {

struct Point {
  double x = 0;
  double y = 0;
};

enum class Anchor { kStart, kMiddle, kEnd };

struct TextStyle {
  double size = 12;
  Anchor anchor = Anchor::kStart;
  std::string_view color = "#333";
  bool bold = false;
  double rotate = 0;  // degrees, around the text's anchor
};

class Svg {
 public:
  Svg(double width, double height);

  void rect(Point corner, double width, double height, std::string_view fill,
            std::string_view stroke = "none");
  void line(Point from, Point to, std::string_view color, double width = 1);
  void polyline(std::span<const Point> points, std::string_view color, bool dashed);
  void circle(Point center, double radius, std::string_view fill);
  void text(Point at, std::string_view text, const TextStyle& style = {});

  std::string finish() const { return body_ + "</svg>\n"; }

 private:
  std::string body_;
};

// The approximate width of the drawn text, which SVG does not provide.
double text_width(std::string_view text, double size);

}  // namespace atp
