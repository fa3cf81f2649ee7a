#pragma once

#include <cstdint>
#include <vector>

#include "atp/config/site/job_placement.h"
#include "atp/config/site/link_traffic.h"
#include "atp/config/site/site.h"

// What aggregation hosts would bring to a job: hosts of their own with a server each, over which
// its tensors are spread. R of them with links like the ranks' carry N/R of a tensor each, so that
// N reach the line rate, where one switch on a plain host carries N + 1 tensors.

namespace atp {

struct AddedHosts {
  double bandwidth = 0;              // of each host's link; 0: as the slowest of the ranks'
  std::vector<std::uint32_t> racks;  // where they stand, in turn; none: the racks of the ranks
};

// The sums of one number of added hosts.
struct AggregationRow {
  std::uint32_t hosts = 0;  // added, with all servers on them; 0: the cluster as it stands
  bool with_switches = false;
  SiteBottleneck bound;
};

struct AggregationForecast {
  SiteBottleneck ring;
  double line_rate = 0;  // seconds per byte, the least of any sums in the network
  // By the number of added hosts from 0 on, each with or without the file's switches, whichever is
  // faster. None where no link is used: all ranks on one host sum in memory.
  std::vector<AggregationRow> rows;

  double ratio(const AggregationRow& row) const;  // the ring's time over that of the sums
  bool is_faster(const AggregationRow& row) const { return ratio(row) > 1; }
  bool is_line_rate(const AggregationRow& row) const;
  // The least number of added hosts from which on all that were asked for are.
  std::optional<std::uint32_t> faster_from() const;
  std::optional<std::uint32_t> line_rate_from() const;
  // The fastest with added hosts, the one with the fewest of them.
  const AggregationRow& best() const;
};

// Of 0 to `most` added hosts. Throws FileError where a link that is used has no bandwidth.
AggregationForecast forecast_aggregation(const Site& site, const JobPlacement& placement,
                                         const AddedHosts& added, std::uint32_t most);

// What would make a ring slower than the cluster as it stands: wider links of switches and servers.
struct WiderLinks {
  std::vector<std::uint32_t> hosts;
  double bandwidth = 0;  // more than this on each of them
};

// Absent where the sums are faster already, or a link bounds them that ranks use, or a rack.
std::optional<WiderLinks> links_to_beat_ring(const Site& site, const JobPlacement& placement,
                                             const AggregationForecast& forecast);

}  // namespace atp
