#pragma once

#include <optional>
#include <string>

#include "atp/config/site/job_placement.h"
#include "atp/config/site/site.h"

// The expected time of a job's all-reduce in the network and over a ring, from the links in the
// cluster file. Ranks that choose between the two start from these figures, before they have
// measured anything (ATP_EXPECTED_TIMES).

namespace atp {

struct ExpectedTime {
  double latency_s = 0;
  double seconds_per_byte = 0;
};
struct ExpectedTimes {
  ExpectedTime network;
  ExpectedTime ring;
};

// Nothing if the file lacks the bandwidth of a used link or has no server, or if no packet leaves a
// host. `sums_on_hosts`: in the network one rank of each host sends for all.
std::optional<ExpectedTimes> expected_times(const Site& site, const JobPlacement& placement,
                                            bool sums_on_hosts);

// "innetwork=0.0002,4.2e-08;ring=0.0003,1.3e-08"
std::string to_text(const ExpectedTimes& times);

}  // namespace atp
