#pragma once

#include <optional>
#include <string>

#include "atp/config/site/job_placement.h"
#include "atp/config/site/site.h"

// What an all-reduce of a job is expected to take in the network and around a ring, as a cluster
// file has the links: what ranks that choose between the two begin with, before they have measured
// anything (ATP_WAY_FIGURES).

namespace atp {

struct ExpectedTime {
  double latency_s = 0;
  double seconds_per_byte = 0;
};
struct ExpectedTimes {
  ExpectedTime network;
  ExpectedTime ring;
};

// Nothing where the file does not say the bandwidth of a link on either way, or has no server, or
// where nothing leaves a host.
std::optional<ExpectedTimes> expected_times(const Site& site, const JobPlacement& placement);

// "innetwork=0.0002,4.2e-08;ring=0.0003,1.3e-08"
std::string to_text(const ExpectedTimes& times);

}  // namespace atp
