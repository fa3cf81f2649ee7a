#include "atp/planner/text.h"

#include <charconv>

namespace atp::planner {

std::string number_text(double value) {
  char buffer[32];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, 6);
  return std::string(buffer, end.ptr);
}

std::string quoted(const std::string& name) { return "'" + name + "'"; }

std::string mesh_text(Mesh mesh) {
  return "(" + std::to_string(mesh.d1) + ", " + std::to_string(mesh.d2) + ")";
}

}  // namespace atp::planner
