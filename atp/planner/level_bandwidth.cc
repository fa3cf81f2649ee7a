#include "atp/planner/level_bandwidth.h"

namespace atp::planner {
namespace {

// The link, or in a torus the bundle of links, between two children.
BytesPerSecond link_between(const Interconnect& interconnect, std::size_t index) {
  const Level& level = interconnect.levels[index];
  if (level.kind != LevelKind::kTorus) return level.bandwidth;
  return level.bandwidth * static_cast<double>(devices_per_child(interconnect, index));
}

bool are_joined(const Level& level, std::uint32_t from, std::uint32_t to) {
  if (from == to) return false;
  if (level.kind != LevelKind::kRing && level.kind != LevelKind::kTorus) return true;
  return (from + 1) % level.count == to || (to + 1) % level.count == from;
}

double links_of_child(const Level& level) {
  switch (level.kind) {
    case LevelKind::kSwitch:
    case LevelKind::kPairs: return 1;
    case LevelKind::kFull: return level.count > 1 ? level.count - 1.0 : 1;
    case LevelKind::kRing:
    case LevelKind::kTorus: return level.count > 2 ? 2 : 1;
  }
  return 1;
}

}  // namespace

BytesPerSecond pair_bandwidth(const Interconnect& interconnect, std::size_t level,
                              std::uint32_t from, std::uint32_t to) {
  if (!are_joined(interconnect.levels[level], from, to)) return {};
  return link_between(interconnect, level);
}

BytesPerSecond group_bandwidth(const Interconnect& interconnect, std::size_t level) {
  return link_between(interconnect, level) * links_of_child(interconnect.levels[level]);
}

}  // namespace atp::planner
