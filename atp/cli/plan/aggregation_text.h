#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "atp/cli/command/text_table.h"
#include "atp/config/site/aggregation_hosts.h"

// What aggregation hosts would bring, in words, tables and JSON.

namespace atp {

struct AggregationPlan {
  Site site;
  JobPlacement placement;
  double bytes = 0;  // of a rank's tensor
  AddedHosts added;
  AggregationForecast forecast;
  std::vector<std::uint32_t> shown;  // numbers of added hosts; the cluster as it stands comes first
};

// The job, and what a ring takes on its links.
std::string aggregation_heading(const AggregationPlan& plan);
TextTable aggregation_table(const AggregationPlan& plan);  // for people
// Where the crossover lies, or why there is none; a sentence each.
std::vector<std::string> aggregation_verdict(const AggregationPlan& plan);

TextTable aggregation_csv(const AggregationPlan& plan);  // raw numbers
std::string aggregation_json(const AggregationPlan& plan, int indent);

}  // namespace atp
