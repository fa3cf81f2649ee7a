#include "atp/planner/communication_matrix.h"

#include <algorithm>

namespace atp::planner {
namespace {

// The smaller number, where 0 means unknown.
BytesPerSecond smaller(BytesPerSecond a, BytesPerSecond b) {
  return a.is_positive() && b.is_positive() ? std::min(a, b) : std::max(a, b);
}

// The bandwidth between two children by the explicit matrix, with all pairs of devices at once.
BytesPerSecond between_devices(const PointToPointMatrix& matrix, std::uint32_t devices,
                               std::uint32_t from, std::uint32_t to) {
  BytesPerSecond sum;
  for (std::uint32_t a = from * devices; a < (from + 1) * devices; ++a) {
    for (std::uint32_t b = to * devices; b < (to + 1) * devices; ++b) {
      sum.value += matrix.at(a, b).value;
    }
  }
  return sum;
}

void limit_by_devices(const PointToPointMatrix& matrix, CommunicationLayer& layer) {
  const auto devices = static_cast<std::uint32_t>(layer.devices_per_child);
  for (std::uint32_t child = 0; child * devices < matrix.size; ++child) {
    const std::uint32_t first = child - child % layer.count;  // of the unit
    BytesPerSecond to_all;
    for (std::uint32_t to = 0; to < layer.count; ++to) {
      if (first + to == child) continue;
      BytesPerSecond& pair = layer.point_to_point[std::size_t{child - first} * layer.count + to];
      const BytesPerSecond explicitly = between_devices(matrix, devices, child, first + to);
      pair = smaller(pair, explicitly);
      to_all.value += explicitly.value;
    }
    layer.group = smaller(layer.group, to_all);
  }
}

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

Result<CommunicationMatrix> communication_matrix(const Interconnect& interconnect) {
  if (Status status = validate(interconnect); !status) return status.error();
  CommunicationMatrix matrix;
  for (std::size_t index = 0; index < interconnect.levels.size(); ++index) {
    const Level& level = interconnect.levels[index];
    if (level.count > kMaxMatrixSide) {
      return Error{"level '" + level.name + "' has " + std::to_string(level.count) +
                   " children; a matrix has at most " + std::to_string(kMaxMatrixSide)};
    }
    CommunicationLayer layer;
    layer.name = level.name;
    layer.count = level.count;
    layer.devices_per_child = devices_per_child(interconnect, index);
    layer.group = group_bandwidth(interconnect, index);
    layer.point_to_point.resize(std::size_t{level.count} * level.count);
    for (std::uint32_t from = 0; from < level.count; ++from) {
      for (std::uint32_t to = 0; to < level.count; ++to) {
        layer.point_to_point[std::size_t{from} * level.count + to] =
            pair_bandwidth(interconnect, index, from, to);
      }
    }
    if (interconnect.point_to_point) limit_by_devices(*interconnect.point_to_point, layer);
    matrix.layers.push_back(std::move(layer));
  }
  return matrix;
}

BytesPerSecond pair_bandwidth(const Interconnect& interconnect, std::size_t level,
                              std::uint32_t from, std::uint32_t to) {
  if (!are_joined(interconnect.levels[level], from, to)) return {};
  return link_between(interconnect, level);
}

BytesPerSecond group_bandwidth(const Interconnect& interconnect, std::size_t level) {
  return link_between(interconnect, level) * links_of_child(interconnect.levels[level]);
}

}  // namespace atp::planner
