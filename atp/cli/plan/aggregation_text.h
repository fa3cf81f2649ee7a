#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "atp/cli/command/text_table.h"
#include "atp/config/site/aggregation_hosts.h"

// The effect of aggregation hosts as sentences, tables and JSON.

namespace atp {

struct AggregationPlan {
  Site site;
  JobPlacement placement;
  double bytes = 0;  // per rank's tensor
  AddedHosts added;
  AggregationForecast forecast;
  std::vector<std::uint32_t> shown;  // numbers of added hosts, after the cluster as it stands
};

// The job, and the time of a ring on its links.
std::string aggregation_heading(const AggregationPlan& plan);
TextTable aggregation_table(const AggregationPlan& plan);  // for people
// Where the crossover is, or why there is none, in sentences.
std::vector<std::string> aggregation_verdict(const AggregationPlan& plan);

TextTable aggregation_csv(const AggregationPlan& plan);  // raw numbers
std::string aggregation_json(const AggregationPlan& plan, int indent);

}  // namespace atp
