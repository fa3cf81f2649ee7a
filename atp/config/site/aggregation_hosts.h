#pragma once

#include <cstdint>
#include <vector>

#include "atp/config/site/job_placement.h"
#include "atp/config/site/link_traffic.h"
#include "atp/config/site/site.h"

// The effect of aggregation hosts on a job: dedicated hosts with a server each, over which its
// tensors are spread. With links like the ranks', each of R hosts carries N/R tensors, so N hosts
// reach the line rate, while a single switch on a plain host carries N + 1 tensors.

namespace atp {

struct AddedHosts {
  double bandwidth = 0;              // per host's link; 0: that of the slowest rank's
  std::vector<std::uint32_t> racks;  // their racks, in turn; none: the racks of the ranks
};

// The bound of sums with one number of added hosts.
struct AggregationRow {
  std::uint32_t hosts = 0;  // added, and running all servers; 0: the cluster as it stands
  bool with_switches = false;
  SiteBottleneck bound;
};

struct AggregationForecast {
  SiteBottleneck ring;
  double line_rate = 0;  // seconds per byte, the minimum for any in-network sums
  // By number of added hosts from 0 on, with or without the file's switches, whichever is faster.
  // Empty if no link is used, because all ranks are on one host and sum in memory.
  std::vector<AggregationRow> rows;

  double ratio(const AggregationRow& row) const;  // the ring's time divided by the row's
  bool is_faster(const AggregationRow& row) const { return ratio(row) > 1; }
  bool is_line_rate(const AggregationRow& row) const;
  // The smallest number of added hosts such that its row and all later ones are faster, or at the
  // line rate.
  std::optional<std::uint32_t> faster_from() const;
  std::optional<std::uint32_t> line_rate_from() const;
  // The fastest row with added hosts; among equals the one with the fewest.
  const AggregationRow& best() const;
};

// For 0 to `most` added hosts. Throws FileError if a used link has no bandwidth.
AggregationForecast forecast_aggregation(const Site& site, const JobPlacement& placement,
                                         const AddedHosts& added, std::uint32_t most);

// How much faster the links of switches and servers must be to beat a ring.
struct WiderLinks {
  std::vector<std::uint32_t> hosts;
  double bandwidth = 0;  // each link needs more than this
};

// Absent if the sums are already faster, or if the bottleneck is an uplink or a link that ranks
// use.
std::optional<WiderLinks> links_to_beat_ring(const Site& site, const JobPlacement& placement,
                                             const AggregationForecast& forecast);

}  // namespace atp
