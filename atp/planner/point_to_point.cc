#include "atp/planner/point_to_point.h"

#include <algorithm>

namespace atp::planner {
namespace {

using Position = std::uint32_t;

// Finds a device's successor in its group by incrementing its digits.
class Neighbours {
 public:
  explicit Neighbours(const GroupGeometry& geometry) : geometry_(geometry) {
    weights_.resize(geometry.levels.size());
    Position weight = 1;
    for (std::size_t index = weights_.size(); index-- > 0;) {
      weights_[index] = weight;
      weight *= static_cast<Position>(geometry.levels[index].count());
    }
    devices_ = weight;
  }

  Position devices() const { return devices_; }

  // The next sibling on one level; the last is followed by the first, and is_last is set.
  Position next_on_level(Position device, std::size_t index, bool& is_last) const {
    const GroupLevel& level = geometry_.levels[index];
    const auto own = static_cast<Position>(level.own);
    const auto other = static_cast<Position>(level.other);
    const Position stride = (level.strided ? other : 1) * weights_[index];
    const Position child = device / weights_[index] % (own * other);
    const Position digit = level.strided ? child / other : child % own;
    is_last = digit + 1 == own;
    return is_last ? device - digit * stride : device + stride;
  }

  // The next member of the whole group, like an odometer, bottom level first.
  Position next_member(Position device) const {
    for (std::size_t index = weights_.size(); index-- > 0;) {
      bool is_last = false;
      device = next_on_level(device, index, is_last);
      if (!is_last) break;
    }
    return device;
  }

 private:
  const GroupGeometry& geometry_;
  std::vector<Position> weights_;
  Position devices_ = 1;
};

class Slowest {
 public:
  Slowest(const PointToPointMatrix& matrix, std::size_t level) : matrix_(matrix) {
    link_.role = LinkRole::kPointToPoint;
    link_.level = level;
  }

  void consider(Position from, Position to, double load) {
    const double bandwidth = matrix_.at(from, to).value;
    if (from == to || bandwidth == 0 || load / bandwidth <= link_.seconds_per_byte) return;
    link_.load = load;
    link_.seconds_per_byte = load / bandwidth;
  }

  // The ring sends half of the volume in each direction; with two members both use one link.
  void consider_hop(Position from, Position to, double volume, double members) {
    const double load = members == 2 ? volume : volume / 2;
    consider(from, to, load);
    consider(to, from, load);
  }

  const LinkLoad& link() const { return link_; }

 private:
  const PointToPointMatrix& matrix_;
  LinkLoad link_;
};

}  // namespace

LinkLoad point_to_point_of_ring(const PointToPointMatrix& matrix, const GroupGeometry& geometry) {
  const Neighbours neighbours(geometry);
  Slowest slowest(matrix, 0);
  const double volume = 2 * (geometry.members - 1) / geometry.members;
  for (Position device = 0; device < neighbours.devices(); ++device) {
    slowest.consider_hop(device, neighbours.next_member(device), volume, geometry.members);
  }
  return slowest.link();
}

LinkLoad point_to_point_of_level(const PointToPointMatrix& matrix, const GroupGeometry& geometry,
                                 std::size_t level, double volume) {
  const Neighbours neighbours(geometry);
  Slowest slowest(matrix, level);
  const double own = geometry.levels[level].own;
  for (Position device = 0; device < neighbours.devices(); ++device) {
    bool is_last = false;
    slowest.consider_hop(device, neighbours.next_on_level(device, level, is_last), volume, own);
  }
  return slowest.link();
}

}  // namespace atp::planner
