#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "atp/base/result.h"
#include "atp/planner/interconnect.h"

// The hierarchical communication matrix of the paper, §3.4 (Fig. 7): for every level the bandwidth
// between any two of its children, as groups of devices, and from one child to all others together.

namespace atp::planner {

struct CommunicationLayer {
  std::string name;
  std::uint32_t count = 0;                     // R_i: children per unit
  std::uint64_t devices_per_child = 1;         // u_i
  std::vector<BytesPerSecond> point_to_point;  // count x count, row order; the diagonal is 0
  BytesPerSecond group{};                      // GroupBW_i

  BytesPerSecond at(std::uint32_t from, std::uint32_t to) const {
    return point_to_point[std::size_t{from} * count + to];
  }
};

struct CommunicationMatrix {
  std::vector<CommunicationLayer> layers;  // top to bottom
};

// A level with more children has a group bandwidth, but no matrix that could be printed.
inline constexpr std::uint32_t kMaxMatrixSide = 4096;

// Computed from the levels, and from the explicit matrix between devices where it is lower: then
// each number is the slowest unit's, the group bandwidth the slowest child's. Errors: an invalid
// interconnect, a level with more than kMaxMatrixSide children.
Result<CommunicationMatrix> communication_matrix(const Interconnect& interconnect);

// The two numbers per level that make up the matrix, each for a child as one group of devices.

// Between two children of a unit; 0 without a direct link, and from a child to itself.
BytesPerSecond pair_bandwidth(const Interconnect& interconnect, std::size_t level,
                              std::uint32_t from, std::uint32_t to);

// From a child to all its siblings: GroupBW of the level.
BytesPerSecond group_bandwidth(const Interconnect& interconnect, std::size_t level);

}  // namespace atp::planner
