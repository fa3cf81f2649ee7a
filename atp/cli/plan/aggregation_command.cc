#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "atp/base/rank_set.h"
#include "atp/cli/command/command.h"
#include "atp/cli/plan/aggregation_text.h"
#include "atp/cli/plan/plan_command.h"
#include "atp/config/site/site_reader.h"
#include "atp/config/text/quantity.h"
#include "atp/config/text/words.h"

namespace atp {
namespace {

constexpr const char* kAggregationExamples = R"(Examples:
  atp plan aggregation --cluster examples/clusters/four-equal-hosts.yaml
      find how many aggregation hosts beat a ring on four machines with equal links
  atp plan aggregation --cluster examples/clusters/two-racks-and-servers.yaml --size 1G --json
      print the forecast for programs
  atp plan aggregation --cluster examples/clusters/two-racks-and-servers.yaml --hosts a1,a2,a3,a4
      --bandwidth "100 Gbit/s per direction" --aggregation-hosts 1,2,3
      place a job on four hosts, with faster aggregation hosts in its rack
Times are lower bounds: what the fullest link needs, with packet headers and without latencies.)";

struct AggregationOptions {
  std::string cluster_file;
  std::string hosts;
  std::uint32_t ranks_per_host = 0;
  std::uint64_t bytes = std::uint64_t{64} << 20;
  std::string aggregation_hosts;
  std::string bandwidth;
  std::string racks;
  bool json = false;
  bool csv = false;
};

// 1, 2, 4, ... and as many as there are ranks.
std::vector<std::uint32_t> usual_counts(std::uint32_t ranks) {
  const std::uint32_t most = std::min(ranks, kMaxServers);
  std::vector<std::uint32_t> counts;
  for (std::uint32_t count = 1; count < most; count *= 2) counts.push_back(count);
  counts.push_back(most);
  return counts;
}

std::vector<std::uint32_t> read_counts(const AggregationOptions& options, std::uint32_t ranks) {
  if (options.aggregation_hosts.empty()) return usual_counts(ranks);
  std::vector<std::uint32_t> counts;
  for (const std::string& word : names_in(options.aggregation_hosts)) {
    const long long count = parse_integer(word).value_or(0);
    if (count < 1 || count > kMaxServers) {
      throw CommandError(fmt::format("--aggregation-hosts {}: found {}, expected numbers from 1 to "
                                     "{}, the maximum number of servers per job",
                                     options.aggregation_hosts, shown(word), kMaxServers),
                         kWrongUsage);
    }
    counts.push_back(static_cast<std::uint32_t>(count));
  }
  return counts;
}

std::vector<std::uint32_t> read_racks(const Site& site, const std::string& list) {
  std::vector<std::string_view> names;
  names.reserve(site.racks.size());
  for (const SiteRack& rack : site.racks) names.push_back(rack.name);
  std::vector<std::uint32_t> racks;
  for (const std::string& name : names_in(list)) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      throw CommandError(fmt::format("--racks {}: {} has no rack {}; {}", list, site.place.file,
                                     shown(name), hint(name, names)),
                         kWrongUsage);
    }
    racks.push_back(static_cast<std::uint32_t>(found - names.begin()));
  }
  return racks;
}

double read_bandwidth_of(const std::string& text) {
  if (text.empty()) return 0;
  const Parsed parsed = parse_bandwidth(text);
  if (parsed.problem.empty()) return parsed.value;
  throw CommandError(fmt::format("--bandwidth: found {}, expected {}; {}", parsed.problem,
                                 kBandwidthExpected, parsed.advice),
                     kWrongUsage);
}

AggregationPlan plan_of(const AggregationOptions& options) {
  if (options.bytes == 0) throw CommandError("--size 0: expected at least 1 byte", kWrongUsage);
  AggregationPlan plan{.site = value_or_throw(read_site_file(options.cluster_file)),
                       .bytes = static_cast<double>(options.bytes)};
  plan.placement =
      value_or_throw(place_job(plan.site, names_in(options.hosts), options.ranks_per_host));
  plan.added = {.bandwidth = read_bandwidth_of(options.bandwidth),
                .racks = read_racks(plan.site, options.racks)};
  plan.shown = read_counts(options, plan.placement.world_size);
  // The crossover may be at a number that is not shown.
  const std::uint32_t most = std::max(usual_counts(plan.placement.world_size).back(),
                                      *std::max_element(plan.shown.begin(), plan.shown.end()));
  plan.forecast = value_or_throw(read_or_error(
      [&] { return forecast_aggregation(plan.site, plan.placement, plan.added, most); }));
  return plan;
}

void run_aggregation(const AggregationOptions& options) {
  const AggregationPlan plan = plan_of(options);
  if (options.json) {
    fmt::print("{}\n", aggregation_json(plan, 2));
  } else if (options.csv) {
    fmt::print("{}", aggregation_csv(plan).csv());
  } else {
    const TextTable table = aggregation_table(plan);
    fmt::print("{}\n", aggregation_heading(plan));
    if (!table.empty()) fmt::print("{}\n", table.text());
    for (const std::string& sentence : aggregation_verdict(plan)) fmt::print("{}\n", sentence);
  }
}

void add_job_options(const Command& command, AggregationOptions& options) {
  command
      .add_option("--cluster", options.cluster_file,
                  "Cluster file with racks and hosts, - for standard input (docs/use/cluster.md)")
      .required()
      .type_name("FILE");
  command
      .add_option("--hosts", options.hosts,
                  "Comma-separated hosts of the job (default: all that have ranks)")
      .type_name("NAME,NAME,...");
  command
      .add_option("--ranks-per-host", options.ranks_per_host,
                  "Ranks per host (default: as in the file)")
      .in_range(1U, std::uint32_t{kMaxRanks})
      .type_name("N");
  command.add_option("--size", options.bytes, "Bytes per tensor, e.g. 512, 4K, 1G (default: 64M)")
      .byte_size()
      .type_name("SIZE");
}

void add_added_options(const Command& command, AggregationOptions& options) {
  command
      .add_option("--aggregation-hosts", options.aggregation_hosts,
                  "How many hosts to add, one row each (default: 1, 2, 4, … up to one per rank)")
      .type_name("N,N,...");
  command
      .add_option("--bandwidth", options.bandwidth,
                  "Link bandwidth per added host (default: the slowest rank's)")
      .type_name("BANDWIDTH");
  command
      .add_option("--racks", options.racks,
                  "Racks for the added hosts, in turn (default: those with ranks)")
      .type_name("NAME,NAME,...");
}

}  // namespace

void add_aggregation_command(const Command& plan) {
  const Command command = plan.add_command(
      "aggregation",
      "Bound the time of in-network sums on a cluster, as it is and with added aggregation hosts");
  command.footer(kAggregationExamples);
  const auto options = std::make_shared<AggregationOptions>();
  add_job_options(command, *options);
  add_added_options(command, *options);
  Option json = command.add_flag("--json", options->json, "Print JSON instead of a table");
  command.add_flag("--csv", options->csv, "Print CSV instead of a table").excludes(json);
  command.callback([options] { run_aggregation(*options); });
}

}  // namespace atp
