#include "atp/planner/paper_model.h"

#include <algorithm>
#include <optional>

#include "atp/planner/communication_matrix.h"
#include "atp/planner/point_to_point.h"

namespace atp::planner {
namespace {

// The layers over which equation 3 takes the minima: 0..last1 for dimension 1, first2..bottom for
// dimension 2.
struct LayerRange {
  std::size_t last1 = 0;
  std::size_t first2 = 0;
};

LayerRange layers_of(const Interconnect& interconnect, Mesh mesh, CostMode mode) {
  const std::size_t bottom = interconnect.levels.size() - 1;
  LayerRange range;
  std::uint64_t product = interconnect.levels[0].count;
  while (product < mesh.d1 && range.last1 < bottom) {
    product *= interconnect.levels[++range.last1].count;
  }
  const bool is_whole = product == mesh.d1;
  const bool starts_below = mode == CostMode::kPaperLiteral ? !is_whole : is_whole;
  range.first2 = std::min(range.last1 + (starts_below ? 1 : 0), bottom);
  return range;
}

// The bandwidth among `members` siblings of one level, adjacent (dimension 2) or spread over the
// whole unit (dimension 1). Absent if the group bandwidth applies.
std::optional<BytesPerSecond> among_siblings(const Interconnect& interconnect, std::size_t index,
                                             double members, bool side_by_side) {
  const Level& level = interconnect.levels[index];
  if (members < 2 || members >= level.count) return std::nullopt;
  const BytesPerSecond pair = pair_bandwidth(interconnect, index, 0, 1);
  switch (level.kind) {
    case LevelKind::kFull: return pair * (members - 1);
    case LevelKind::kRing:
    case LevelKind::kTorus:
      // The ends of an arc have one link to the rest. Siblings that are apart reach each other
      // through others, for which the paper has no cost.
      if (side_by_side) return pair;
      return std::nullopt;
    case LevelKind::kSwitch:
    case LevelKind::kPairs: return std::nullopt;
  }
  return std::nullopt;
}

// Lowers `least` to the bandwidth if that is smaller.
void limit(PaperBandwidth& least, BytesPerSecond bandwidth, std::size_t level, double groups,
           LinkRole role) {
  const BytesPerSecond shared = bandwidth / groups;
  if (least.bandwidth.value != 0 && least.bandwidth <= shared) return;
  least = {shared, level, groups, role};
}

PaperBandwidth dimension1(const Interconnect& interconnect, Mesh mesh, CostMode mode,
                          std::size_t last, bool correct) {
  PaperBandwidth least;
  for (std::size_t index = 0; index <= last; ++index) {
    const auto devices = static_cast<double>(devices_per_child(interconnect, index));
    const bool is_literal = mode == CostMode::kPaperLiteral;
    const double groups = is_literal ? mesh.d2 : std::min<double>(mesh.d2, devices);
    limit(least, group_bandwidth(interconnect, index), index, groups, LinkRole::kGroup);
    if (!correct || is_literal) continue;
    const double members = interconnect.levels[index].count / std::max(1.0, mesh.d2 / devices);
    if (const auto among = among_siblings(interconnect, index, members, false)) {
      limit(least, *among, index, groups, LinkRole::kPointToPoint);
    }
  }
  return least;
}

PaperBandwidth dimension2(const Interconnect& interconnect, Mesh mesh, std::size_t first,
                          bool correct) {
  PaperBandwidth least;
  for (std::size_t index = first; index < interconnect.levels.size(); ++index) {
    limit(least, group_bandwidth(interconnect, index), index, 1, LinkRole::kGroup);
    if (!correct) continue;
    const auto devices = static_cast<double>(devices_per_child(interconnect, index));
    if (const auto among = among_siblings(interconnect, index, mesh.d2 / devices, true)) {
      limit(least, *among, index, 1, LinkRole::kPointToPoint);
    }
  }
  return least;
}

// Applies the explicit matrix: the slowest hop of the rings of a contiguous mesh, whose ranks are
// in the order of the devices.
void limit_by_matrix(const Interconnect& interconnect, Mesh mesh, Dimension dimension,
                     PaperBandwidth& least) {
  const GroupGeometry geometry = geometry_of({{mesh.d1, mesh.d2}}, dimension);
  const LinkLoad slowest = point_to_point_of_ring(*interconnect.point_to_point, geometry);
  if (slowest.seconds_per_byte == 0) return;
  const double volume = 2 * (geometry.members - 1) / geometry.members;
  limit(least, {volume / slowest.seconds_per_byte}, 0, 1, LinkRole::kPointToPoint);
}

}  // namespace

PaperBandwidths paper_bandwidths(const Interconnect& interconnect, Mesh mesh, CostMode mode,
                                 bool point_to_point_correction) {
  const LayerRange range = layers_of(interconnect, mesh, mode);
  PaperBandwidths found{
      dimension1(interconnect, mesh, mode, range.last1, point_to_point_correction),
      dimension2(interconnect, mesh, range.first2, point_to_point_correction)};
  if (interconnect.point_to_point && point_to_point_correction) {
    limit_by_matrix(interconnect, mesh, Dimension::k1, found.dimension1);
    limit_by_matrix(interconnect, mesh, Dimension::k2, found.dimension2);
  }
  return found;
}

double ring_seconds_per_byte(std::uint32_t members, BytesPerSecond bandwidth) {
  if (members == 1) return 0;
  return 2.0 * (members - 1) / members / bandwidth.value;
}

}  // namespace atp::planner
