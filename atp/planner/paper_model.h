#pragma once

#include <cstddef>

#include "atp/planner/interconnect.h"
#include "atp/planner/mesh.h"
#include "atp/planner/options.h"
#include "atp/planner/plan.h"

// The paper's equation 3: B1' and B2', the bandwidths available to the all-reduces of a contiguous
// mesh, from the hierarchical communication matrix.
//
// As printed, the equation contradicts the paper's own examples in two places, which kPaper
// corrects. The second dimension starts at layer i + 1 if d1 EQUALS the product of the first i
// layers (printed: differs); otherwise mesh (4,4) of Fig. 7a would get B2' = 25 GB/s instead of
// 600. And only min(d2, u_j) groups, not always d2, share the link of a unit of u_j devices:
//     B1' = min over layers j <= i of GroupBW_j / min(d2, u_j),
// the only reading with B1' = B2' = GroupBW for IC5 and IC6, as in §5.4.

namespace atp::planner {

struct PaperBandwidth {
  BytesPerSecond bandwidth{};        // B1' or B2'
  std::size_t level = 0;             // where the minimum is
  double groups = 1;                 // by which the bandwidth was divided
  LinkRole role = LinkRole::kGroup;  // kPointToPoint if two children or devices limit it
};

struct PaperBandwidths {
  PaperBandwidth dimension1;
  PaperBandwidth dimension2;
};

// `mode` is kPaper or kPaperLiteral. The result is meaningless for a dimension of size 1.
PaperBandwidths paper_bandwidths(const Interconnect& interconnect, Mesh mesh, CostMode mode,
                                 bool point_to_point_correction);

// Equation 4 solved for time: seconds per byte of a rank's tensor, 2(d-1)/d / B'.
double ring_seconds_per_byte(std::uint32_t members, BytesPerSecond bandwidth);

}  // namespace atp::planner
