// The names that people read and that files and JSON carry.

#include "atp/planner/interconnect.h"
#include "atp/planner/options.h"
#include "atp/planner/plan.h"

namespace atp::planner {

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
    case Collective::kAggregation: return "aggregation";
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
    case LinkRole::kPointToPoint: return "point-to-point";
    case LinkRole::kGroup: return "group";
  }
  return "?";
}

}  // namespace atp::planner
