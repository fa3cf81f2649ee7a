#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "atp/base/result.h"
#include "atp/planner/interconnect.h"

// The hierarchical communication matrix of the paper, §3.4 (Fig. 7): for every level the bandwidth
// between two of its children, each taken as one group of devices, and what a child has towards
// all the others together.

namespace atp::planner {

struct CommunicationLayer {
  std::string name;
  std::uint32_t count = 0;                     // R_i: children of one unit
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

// A level beyond this many children has its group bandwidth, but no matrix that could be printed.
inline constexpr std::uint32_t kMaxMatrixSide = 4096;

// From the levels, and from the explicit matrix between devices where it promises less: then
// each number is that of the poorest unit, the group bandwidth that of the poorest child. Errors:
// an interconnect that does not validate, a level of more than kMaxMatrixSide children.
Result<CommunicationMatrix> communication_matrix(const Interconnect& interconnect);

// The two numbers of one level from which the hierarchical communication matrix is made (paper
// §3.4), each for a child taken as one group of devices.

// Between two children of one unit; 0 where no link joins them directly, and to itself.
BytesPerSecond pair_bandwidth(const Interconnect& interconnect, std::size_t level,
                              std::uint32_t from, std::uint32_t to);

// From one child to all its siblings: GroupBW of the level.
BytesPerSecond group_bandwidth(const Interconnect& interconnect, std::size_t level);

}  // namespace atp::planner
