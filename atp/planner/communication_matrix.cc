#include "atp/planner/communication_matrix.h"

#include "atp/planner/level_bandwidth.h"

namespace atp::planner {

Result<CommunicationMatrix> communication_matrix(const Interconnect& interconnect) {
  if (Status status = validate(interconnect); !status) return status.error();
  CommunicationMatrix matrix;
  for (std::size_t index = 0; index < interconnect.levels.size(); ++index) {
    const Level& level = interconnect.levels[index];
    if (level.count > kMaxMatrixSide) {
      return Error{"level '" + level.name + "' has " + std::to_string(level.count) +
                   " children; a matrix is made for at most " + std::to_string(kMaxMatrixSide)};
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
    matrix.layers.push_back(std::move(layer));
  }
  return matrix;
}

}  // namespace atp::planner
