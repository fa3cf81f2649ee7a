#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "atp/planner/interconnect.h"
#include "atp/planner/mesh.h"

// Computes link loads by brute force: every device is a list of digits, every message is routed hop
// by hop, and the bytes on each directed link are added up. Shares no formula with the planner.

namespace atp::planner::testing {

using Digits = std::vector<std::uint32_t>;  // the child on each level, top to bottom

enum class Direction { kUp, kDown, kNext, kPrevious, kPair };

// A directed link: its level, its place (the digits of the child or device it belongs to) and its
// direction. `other` identifies the partner on full levels.
struct Link {
  std::size_t level = 0;
  Digits place;
  Direction direction = Direction::kUp;
  std::uint32_t other = 0;
  auto key() const { return std::tie(level, place, direction, other); }
  bool operator<(const Link& link) const { return key() < link.key(); }
};

class Paths {
 public:
  explicit Paths(const Interconnect& interconnect) : levels_(interconnect.levels) {}

  // Sends from one device to another. On a ring level it takes the shorter direction; for a tie
  // `clockwise` decides.
  void send(Digits from, const Digits& to, double bytes, bool clockwise) {
    while (from != to) {
      std::size_t top = 0;
      while (from[top] == to[top]) ++top;
      cross(from, to, top, bytes, clockwise);
    }
  }

  // climb() sends between a device and the switch of one level, add_uplink() only over the child's
  // link on that level.
  void climb(const Digits& device, std::size_t level, double bytes, Direction direction) {
    for (std::size_t below = levels_.size(); below-- > level;) {
      if (levels_[below].kind == LevelKind::kSwitch) add_uplink(device, below, bytes, direction);
    }
  }

  void add_uplink(const Digits& device, std::size_t level, double bytes, Direction direction) {
    add({level, prefix(device, level + 1), direction, 0}, bytes);
  }

  // The load of a level's fullest link.
  double fullest(std::size_t level) const {
    double fullest = 0;
    for (const auto& [link, bytes] : loads_) {
      if (link.level == level && bytes > fullest) fullest = bytes;
    }
    return fullest;
  }

  static Digits prefix(const Digits& device, std::size_t length) {
    return {device.begin(), device.begin() + static_cast<std::ptrdiff_t>(length)};
  }

 private:
  void add(Link link, double bytes) { loads_[std::move(link)] += bytes; }

  // Crosses the topmost level on which the two differ, and updates `from`.
  void cross(Digits& from, const Digits& to, std::size_t top, double bytes, bool clockwise) {
    const Level& level = levels_[top];
    if (level.kind == LevelKind::kTorus) {
      walk(from, to[top], top, from, bytes, clockwise);
      from[top] = to[top];
      return;
    }
    climb(from, top + 1, bytes, Direction::kUp);
    climb(to, top + 1, bytes, Direction::kDown);
    switch (level.kind) {
      case LevelKind::kSwitch:
        add_uplink(from, top, bytes, Direction::kUp);
        add_uplink(to, top, bytes, Direction::kDown);
        break;
      case LevelKind::kFull:
      case LevelKind::kPairs:
        add({top, prefix(from, top + 1), Direction::kPair, to[top]}, bytes);
        break;
      case LevelKind::kRing:
        walk(from, to[top], top, prefix(from, top + 1), bytes, clockwise);
        break;
      case LevelKind::kTorus: break;
    }
    from = to;
  }

  // Goes around a ring, link by link; `place` is the owner of the links (a child or a device).
  void walk(const Digits& from, std::uint32_t to, std::size_t top, Digits place, double bytes,
            bool clockwise) {
    const std::uint32_t count = levels_[top].count;
    const std::uint32_t ahead = (to + count - from[top]) % count;
    const bool next = 2 * ahead == count ? clockwise : 2 * ahead < count;
    while (place[top] != to) {
      // Two children share one link for both directions.
      const Direction direction = next || count == 2 ? Direction::kNext : Direction::kPrevious;
      add({top, place, direction, 0}, bytes);
      place[top] = (place[top] + (next ? 1 : count - 1)) % count;
    }
  }

  const std::vector<Level>& levels_;
  std::map<Link, double> loads_;
};

// One device's coordinates on the mesh, level by level.
struct Coordinates {
  Digits own;    // of the dimension under test
  Digits other;  // of the other dimension
};

class Groups {
 public:
  Groups(const MeshLayout& layout, Dimension dimension) : layout_(layout), dimension_(dimension) {
    for (const LevelSplit& split : layout) {
      own_.push_back(dimension == Dimension::k1 ? split.d1 : split.d2);
      other_.push_back(dimension == Dimension::k1 ? split.d2 : split.d1);
    }
  }

  const Digits& own_sizes() const { return own_; }

  Digits device(const Coordinates& at) const {
    Digits digits;
    for (std::size_t level = 0; level < layout_.size(); ++level) {
      const std::uint32_t i = dimension_ == Dimension::k1 ? at.own[level] : at.other[level];
      const std::uint32_t j = dimension_ == Dimension::k1 ? at.other[level] : at.own[level];
      digits.push_back(i * layout_[level].d2 + j);
    }
    return digits;
  }

  std::vector<Digits> all_groups() const { return all(other_); }
  std::vector<Digits> all_members() const { return all(own_); }

  // All lists of digits below the given sizes, the first digit slowest.
  static std::vector<Digits> all(const Digits& sizes) {
    std::vector<Digits> result{{}};
    for (const std::uint32_t size : sizes) {
      std::vector<Digits> longer;
      for (const Digits& digits : result) {
        for (std::uint32_t digit = 0; digit < size; ++digit) {
          longer.push_back(digits);
          longer.back().push_back(digit);
        }
      }
      result = std::move(longer);
    }
    return result;
  }

 private:
  const MeshLayout& layout_;
  Dimension dimension_;
  Digits own_, other_;
};

}  // namespace atp::planner::testing
