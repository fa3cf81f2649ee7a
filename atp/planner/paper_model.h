#pragma once

#include <cstddef>

#include "atp/planner/interconnect.h"
#include "atp/planner/mesh.h"
#include "atp/planner/options.h"
#include "atp/planner/plan.h"

// The paper's equation 3: B1' and B2', the bandwidths that the links offer to the all-reduces of a
// contiguous mesh, from the hierarchical communication matrix.
//
// As printed the equation contradicts the paper's own examples in two places, and kPaper puts both
// right. The second dimension starts at layer i + 1 when d1 EQUALS the product of the first i
// layers (printed: differs), or mesh (4,4) of Fig. 7a would get B2' = 25 GB/s and not 600. And only
// min(d2, u_j) groups, not always d2, share the link of a unit of u_j devices:
//     B1' = min over layers j <= i of GroupBW_j / min(d2, u_j),
// the only reading in which B1' = B2' = GroupBW holds for IC5 and IC6 as §5.4 says.

namespace atp::planner {

struct PaperBandwidth {
  BytesPerSecond bandwidth{};        // B1' or B2'
  std::size_t level = 0;             // of the minimum
  double groups = 1;                 // what its bandwidth was divided by
  LinkRole role = LinkRole::kGroup;  // kPointToPoint where two children or devices limit it
};

struct PaperBandwidths {
  PaperBandwidth dimension1;
  PaperBandwidth dimension2;
};

// mode is kPaper or kPaperLiteral. A dimension of size 1 has no meaning in the result.
PaperBandwidths paper_bandwidths(const Interconnect& interconnect, Mesh mesh, CostMode mode,
                                 bool point_to_point_correction);

// Equation 4 turned around: seconds per byte of a rank's tensor, 2(d-1)/d / B'.
double ring_seconds_per_byte(std::uint32_t members, BytesPerSecond bandwidth);

}  // namespace atp::planner
