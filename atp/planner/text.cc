#include "atp/planner/text.h"

#include <charconv>
#include <cmath>

#include "atp/planner/interconnect.h"
#include "atp/planner/options.h"
#include "atp/planner/plan.h"

// Names for people, files and JSON.

namespace atp::planner {

namespace {

std::string with_digits(double value, int digits) {
  char buffer[32];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, digits);
  return std::string(buffer, end.ptr);
}

}  // namespace

std::string number_text(double value) { return with_digits(value, 6); }

std::string factor_text(double value) {
  if (value >= 100) return number_text(std::round(value));
  const std::string text = with_digits(value, 3);
  return text == "1" ? number_text(value) : text;
}

std::string quoted(const std::string& name) { return "'" + name + "'"; }

std::string mesh_text(Mesh mesh) {
  return "(" + std::to_string(mesh.d1) + "," + std::to_string(mesh.d2) + ")";
}

const char* to_string(LevelKind kind) {
  switch (kind) {
    case LevelKind::kSwitch: return "switch";
    case LevelKind::kRing: return "ring";
    case LevelKind::kFull: return "full";
    case LevelKind::kPairs: return "pairs";
    case LevelKind::kTorus: return "torus";
  }
  return "?";
}

const char* to_string(CostMode mode) {
  switch (mode) {
    case CostMode::kLinkLoad: return "linkload";
    case CostMode::kPaper: return "paper";
    case CostMode::kPaperLiteral: return "paper-literal";
  }
  return "?";
}

const char* to_string(Volume volume) { return volume == Volume::kExact ? "exact" : "equation2"; }

const char* to_string(Collective collective) {
  switch (collective) {
    case Collective::kNone: return "none";
    case Collective::kRing: return "ring";
    case Collective::kHierarchical: return "hierarchical";
    case Collective::kInNetwork: return "innetwork";
    case Collective::kGloo: return "gloo";
    case Collective::kMeasured: return "measured";
  }
  return "?";
}

const char* to_string(LinkRole role) {
  switch (role) {
    case LinkRole::kNone: return "none";
    case LinkRole::kUplink: return "uplink";
    case LinkRole::kDirect: return "direct";
    case LinkRole::kServer: return "server";
    case LinkRole::kSwitchHost: return "switch-host";
    case LinkRole::kPointToPoint: return "point-to-point";
    case LinkRole::kGroup: return "group";
  }
  return "?";
}

}  // namespace atp::planner
