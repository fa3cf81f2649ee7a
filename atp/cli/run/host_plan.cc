#include "atp/cli/run/host_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "atp/config/site/expected_times.h"
#include "atp/config/site/routes.h"

namespace atp {
namespace {

// torchrun's default port and those after it, so that jobs on the same hosts use different ones.
constexpr std::uint32_t kMasterPort = 29500;
constexpr std::uint32_t kMasterPorts = 1000;

void add_count(NodePlan& plan, const char* option, std::uint64_t value) {
  if (value == 0) return;
  plan.arguments.emplace_back(option);
  plan.arguments.push_back(std::to_string(value));
}

void add_lanes(NodePlan& plan, const Site& site) {
  if (site.lanes > 1) add_count(plan, "--lanes", site.lanes);
}

// The bandwidth of the switch's upward path: the host's link, and the rack's uplink if the next hop
// is behind it. The slower of the bandwidths that the file gives; 0 if it gives none.
double uplink_bandwidth(const Site& site, const SiteSwitch& node, std::uint32_t rack) {
  double least = site.hosts[node.host].link.bandwidth;
  for (const std::uint32_t above : hosts_above(site, rack)) {
    const double uplink = site.racks[rack].uplink.bandwidth;
    if (site.hosts[above].rack == rack || uplink == 0) continue;
    least = least == 0 ? uplink : std::min(least, uplink);
  }
  return least;
}

NodePlan switch_plan(const Site& site, std::uint32_t rack) {
  const SiteSwitch& node = *site.racks[rack].switch_node;
  NodePlan plan{.role = "switch",
                .name = "switch-" + site.racks[rack].name,
                .listen = endpoint_text(site.hosts[node.host].address, node.port)};
  for (const std::uint32_t above : hosts_above(site, rack)) {
    plan.arguments.insert(plan.arguments.end(), {"--upstream", site.hosts[above].address});
  }
  add_count(plan, "--aggregators", node.aggregators);
  add_count(plan, "--partition", node.partition);
  add_count(plan, "--quota", node.quota);
  add_count(plan, "--places", node.places);
  if (const double bandwidth = uplink_bandwidth(site, node, rack); bandwidth > 0) {
    const double of_a_lane = bandwidth / site.lanes;
    plan.arguments.insert(plan.arguments.end(),
                          {"--uplink-rate", fmt::format("{:.6g}", of_a_lane * 8 / 1e9)});
  }
  add_lanes(plan, site);
  return plan;
}

NodePlan server_plan(const Site& site, const SiteServer& server) {
  const SiteHost& host = site.hosts[server.host];
  const auto same_host = [&server](const SiteServer& other) { return other.host == server.host; };
  const bool is_alone = std::count_if(site.servers.begin(), site.servers.end(), same_host) == 1;
  NodePlan plan{.role = "server",
                .name = "server-" + host.name + (is_alone ? "" : fmt::format("-{}", server.port)),
                .listen = endpoint_text(host.address, server.port)};
  add_count(plan, "--window", server.window);
  add_count(plan, "--lease", server.lease);
  add_lanes(plan, site);
  return plan;
}

}  // namespace

std::vector<NodePlan> nodes_of(const Site& site, std::uint32_t host) {
  std::vector<NodePlan> plans;
  for (const SiteServer& server : site.servers) {
    if (server.host == host) plans.push_back(server_plan(site, server));
  }
  for (std::uint32_t rack = 0; rack < site.racks.size(); ++rack) {
    const std::optional<SiteSwitch>& node = site.racks[rack].switch_node;
    if (node && node->host == host) plans.push_back(switch_plan(site, rack));
  }
  return plans;
}

JobEnvironment environment_of(const Site& site, const JobPlacement& placement,
                              const PlacedRanks& placed, const JobOptions& options) {
  const std::uint32_t port =
      options.master_port != 0 ? options.master_port : kMasterPort + options.job % kMasterPorts;
  std::vector<std::size_t> ranks_of_hosts;
  ranks_of_hosts.reserve(placement.hosts.size());
  for (const PlacedRanks& each : placement.hosts) ranks_of_hosts.push_back(each.ranks);
  if (ranks_of_hosts.size() == 1) ranks_of_hosts.clear();
  const std::optional<ExpectedTimes> times = expected_times(site, placement, options.sums_on_hosts);
  return {.ranks = placement.world_size,
          .first_rank = placed.first_rank,
          .local_ranks = placed.ranks,
          .job = options.job,
          .incarnation = options.incarnation,
          .route = route_text(site, placed.host),
          .ranks_of_hosts = std::move(ranks_of_hosts),
          .master_address = site.hosts[placement.hosts.front().host].address,
          .master_port = static_cast<std::uint16_t>(port),
          .values = options.values,
          .expected_times = times ? to_text(*times) : ""};
}

}  // namespace atp
