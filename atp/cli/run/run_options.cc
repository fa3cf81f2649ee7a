#include "atp/cli/run/run_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "atp/base/system_random.h"
#include "atp/base/variables.h"
#include "atp/cli/command/command.h"
#include "atp/cli/command/log.h"
#include "atp/cli/command/machine.h"
#include "atp/cli/node/prefix.h"
#include "atp/collective/base/options.h"
#include "atp/collective/shm/segment.h"
#include "atp/config/site/site_reader.h"
#include "atp/config/text/file.h"
#include "atp/driver/udp/socket.h"

// Turns the options of `atp run` into what it starts.

namespace atp {
namespace {

std::uint32_t random_number() { return static_cast<std::uint32_t>(random_seed()); }

NodePlan local_node(const char* role, std::string name, std::uint32_t lane) {
  return {.role = role, .name = std::move(name), .lane = lane};
}

// Free UDP addresses on loopback. The sockets stay open until all are found, so that they differ.
std::vector<std::string> free_addresses(std::size_t count) {
  std::vector<UdpSocket> sockets;
  std::vector<std::string> addresses;
  for (std::size_t i = 0; i < count; ++i) {
    Result<UdpSocket> socket = UdpSocket::open(Endpoint::ipv4(127, 0, 0, 1, 0));
    if (!socket) throw CommandError(socket.error().message);
    sockets.push_back(std::move(socket).value());
    addresses.push_back(to_string(sockets.back().local()));
  }
  return addresses;
}

// "switch", or "switch-1" if there are several.
std::string name_of(const char* role, std::uint32_t number, std::uint32_t count) {
  return count == 1 ? role : fmt::format("{}-{}", role, number);
}

void add_switches(HostPlan& plan, const RunOptions& options) {
  if (options.without_switch) return;
  for (std::uint32_t lane = 0; lane < options.lanes; ++lane) {
    plan.nodes.push_back(local_node("switch", name_of("switch", lane, options.lanes), lane));
    if (options.aggregators == 0) continue;
    plan.nodes.back().arguments = {"--aggregators", std::to_string(options.aggregators)};
  }
}

void add_servers(HostPlan& plan, const RunOptions& options) {
  if (options.colocated_servers) {
    if (options.ranks > kMaxServers) {
      throw CommandError(
          fmt::format("--colocated-servers would start {} servers, one per rank; a job "
                      "has at most {}: use --servers N",
                      options.ranks, kMaxServers),
          kWrongUsage);
    }
    plan.job->colocated_servers = free_addresses(options.ranks);
    return;
  }
  const std::uint32_t count = std::max(options.servers, options.lanes);
  for (std::uint32_t i = 0; i < count; ++i) {
    plan.nodes.push_back(
        local_node("server", name_of("server", i, count), options.lanes == 1 ? 0 : i));
  }
}

// The user's own route; empty: none.
std::string given_route() { return std::string(value_of("ATP_ROUTE")); }

// Checks in advance what a rank would find out too late.
bool has_memory(const RunOptions& options) {
  const Result<Segment> memory = Segment::create(std::min(options.ranks, kMaxRanks));
  if (!memory) {
    log_warning("the ranks cannot sum in shared memory ({}), so {}", memory.error().message,
                given_route().empty() ? "a switch and a server are started"
                                      : "they sum over the route in ATP_ROUTE");
  }
  return memory.ok();
}

// What ranks on several hosts do unless a variable forbids it (docs/use/variables.md).
bool sums_on_hosts() {
  return value_of("ATP_HIERARCHY") != "0" && value_of("ATP_HOST_MEMORY") != "0" &&
         value_of("ATP_EXACT") != "1" && value_of("ATP_SCALE") != "fixed";
}

// The first option that starts a switch or a server; null: none.
const char* option_with_nodes(const RunOptions& options) {
  if (options.with_network) return "--switch";
  if (options.without_switch) return "--no-switch";
  if (options.servers > 1) return "--servers";
  if (options.lanes > 1) return "--lanes";
  if (options.colocated_servers) return "--colocated-servers";
  if (options.aggregators > 0) return "--aggregators";
  if (!options.stats_folder.empty()) return "--stats-dir";
  return nullptr;
}

// Ranks on one machine sum in shared memory unless an option or variable needs the network; torch's
// sum over a ring if a variable says so, for which nothing has to be started.
bool takes_network(const RunOptions& options) {
  if (option_with_nodes(options) != nullptr || options.values > 0) return true;
  const bool without_memory =
      value_of("ATP_HOST_MEMORY") == "0" || value_of("ATP_SCALE") == "fixed";
  if (value_of("ATP_ALGORITHM") != "ring") return without_memory || !has_memory(options);
  if (without_memory) {
    log_info("with ATP_ALGORITHM=ring no switch and no server are started; --switch starts them");
  }
  return false;
}

void refuse_nodes_beside_a_route(const RunOptions& options, const std::string& route) {
  const char* option = option_with_nodes(options);
  if (option == nullptr) return;
  throw CommandError(
      fmt::format("{} starts switches and servers, but ATP_ROUTE={} names others: unset ATP_ROUTE, "
                  "or leave out {}; ATP_HOST_MEMORY=0 makes the ranks use ATP_ROUTE",
                  option, route, option),
      kWrongUsage);
}

HostPlan local_plan(const RunOptions& options) {
  if (options.ranks == 0) {
    throw UsageError(
        "the number of ranks is missing: -n N (or --ranks N), or --cluster FILE for a host of a "
        "cluster");
  }
  if (options.runner.command.empty()) {
    throw UsageError("no program to run: name it last, for example -- python train.py");
  }
  const Result<std::uint16_t> master_port = free_tcp_port();
  if (!master_port) throw CommandError(master_port.error().message);
  HostPlan plan;
  plan.job = JobEnvironment{.ranks = options.ranks,
                            .job = random_number(),
                            .incarnation = random_number(),
                            .master_port = master_port.value(),
                            .values = options.values};
  if (!takes_network(options)) return plan;
  plan.job->takes_network = true;
  plan.job->route = given_route();
  if (!plan.job->route.empty()) {
    refuse_nodes_beside_a_route(options, plan.job->route);
    return plan;
  }
  add_switches(plan, options);
  add_servers(plan, options);
  return plan;
}

// --host, or the only host in the file with an address of this machine.
std::uint32_t this_host(const Site& site, const RunOptions& options) {
  if (!options.host.empty()) return value_or_throw(site.find_host(options.host));
  const auto is_own = [](const std::string& address) { return !interface_with(address).empty(); };
  return value_or_throw(site.find_own_host(is_own));
}

std::string job_hosts(const Site& site, const JobPlacement& placement) {
  std::string text;
  for (const PlacedRanks& placed : placement.hosts) {
    text += (text.empty() ? "" : ", ") + site.hosts[placed.host].name;
  }
  return text;
}

JobEnvironment job_on(const Site& site, std::uint32_t host, const RunOptions& options) {
  const JobPlacement placement =
      value_or_throw(place_job(site, names_in(options.hosts), options.ranks_per_host));
  const PlacedRanks* placed = placement.on_host(host);
  if (placed == nullptr) {
    throw CommandError(fmt::format("host {} has no ranks of this job, which runs on {}; omit the "
                                   "command to start the host's switches and servers",
                                   site.hosts[host].name, job_hosts(site, placement)),
                       kWrongUsage);
  }
  JobOptions job{options.job, options.incarnation, options.master_port, options.values,
                 sums_on_hosts()};
  // Several hosts have no common number unless it is given; torch agrees on one through its store.
  if (!job.incarnation && placement.hosts.size() == 1) job.incarnation = random_number();
  JobEnvironment environment = environment_of(site, placement, *placed, job);
  environment.interface_name = interface_with(site.hosts[host].address);
  // Services started with a job on this host alone are meant to be used. (A job over several hosts
  // decides for each of its groups, and all its ranks need the same setting.)
  environment.takes_network = options.with_services && placement.hosts.size() == 1;
  return environment;
}

// Switches read the weights of jobs themselves, so that SIGHUP can make them read these again.
void add_weights(HostPlan& plan, const std::string& file) {
  for (NodePlan& node : plan.nodes) {
    if (node.role != "switch") continue;
    if (const auto why = why_reading_may_wait(file)) {
      throw CommandError("--cluster: the switches read the weights of jobs there again: " + *why,
                         kWrongUsage);
    }
    node.arguments.insert(node.arguments.end(), {"--weights", std::filesystem::absolute(file)});
  }
}

HostPlan cluster_plan(const RunOptions& options) {
  const Site site = value_or_throw(read_site_file(options.cluster_file));
  const std::uint32_t host = this_host(site, options);
  HostPlan plan{.host = site.hosts[host].name};
  const bool has_command = !options.runner.command.empty();
  if (!has_command || options.with_services) plan.nodes = nodes_of(site, host);
  if (site.weights) add_weights(plan, options.cluster_file);
  if (has_command) {
    plan.job = job_on(site, host, options);
  } else if (plan.nodes.empty()) {
    throw CommandError(
        fmt::format("{} has no switch and no server on host {}; to start ranks there, "
                    "add their command",
                    options.cluster_file, plan.host),
        kWrongUsage);
  }
  return plan;
}

}  // namespace

HostPlan plan_of(const RunOptions& options) {
  // The nodes would refuse them, too, but only once everything else has started.
  static_cast<void>(networks_of("--status-from", options.status_from));
  static_cast<void>(networks_of("--drain-from", options.drain_from));
  HostPlan plan = options.cluster_file.empty() ? local_plan(options) : cluster_plan(options);
  if (plan.job) {
    const auto replaced = plan.job->of_rank(plan.job->first_rank);
    if (const Status right = CommunicatorOptions::check_environment(replaced); !right) {
      throw CommandError(right.error().message, kWrongUsage);
    }
  }
  for (NodePlan& node : plan.nodes) {
    const auto add = [&node](const char* option, const std::string& value) {
      node.arguments.insert(node.arguments.end(), {option, value});
    };
    for (const std::string& network : options.status_from) add("--status-from", network);
    for (const std::string& network : options.drain_from) add("--drain-from", network);
    if (options.values > 0) add("--values", std::to_string(options.values));
    if (!options.key_file.empty()) add("--keys", options.key_file);
    if (!options.stats_folder.empty()) {
      add("--stats", options.stats_folder + "/" + node.name + ".jsonl");
      add("--stats-interval", fmt::format("{}", options.stats_interval_s));
    }
  }
  return plan;
}

}  // namespace atp
