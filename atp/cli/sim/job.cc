#include "atp/cli/sim/job.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>

#include "atp/cli/command/command.h"
#include "atp/config/site/routes.h"
#include "atp/config/site/site_reader.h"
#include "atp/sim/world.h"

namespace atp {
namespace {

constexpr std::uint64_t kAggregatorBytes = 4 * kSiteValues + 256;
constexpr std::uint64_t kMemory = std::uint64_t{1} << 30;  // for the aggregators of all switches

sim::LinkPlan link_plan(const SiteLink& link, const Place& place, const char* kind,
                        std::uint32_t parts = 1) {
  check_bandwidth(link, place, kind);
  const auto nanoseconds = static_cast<Duration::rep>(std::llround(link.latency_s * 1e9));
  return {.bits_per_s = static_cast<std::uint64_t>(link.bandwidth * 8 / parts),
          .delay = Duration(nanoseconds)};
}

// The world has the switches of the racks that have one, in the racks' order.
std::vector<int> switch_numbers(const Site& site) {
  std::vector<int> numbers;
  numbers.reserve(site.racks.size());
  int next = 0;
  for (const SiteRack& rack : site.racks) numbers.push_back(rack.switch_node ? next++ : -1);
  return numbers;
}

// The smallest number that the file gives any switch, else the default; limited by kMemory.
std::uint32_t aggregators_of(const Site& site, std::uint32_t switches) {
  std::uint32_t least = 0;
  for (const SiteRack& rack : site.racks) {
    const std::uint32_t here = rack.switch_node ? rack.switch_node->aggregators : 0;
    if (here > 0 && (least == 0 || here < least)) least = here;
  }
  const std::uint64_t most = std::bit_floor(kMemory / kAggregatorBytes / std::max(switches, 1U));
  const std::uint64_t wanted = least > 0 ? least : SwitchConfig{}.aggregators;
  return static_cast<std::uint32_t>(std::min(wanted, most));
}

void set_fabric(const Site& site, sim::Plan& plan) {
  for (const SiteRack& rack : site.racks) {
    if (rack.above) {
      throw FileError(
          rack.place,
          "leads to another rack; the simulator supports only racks directly below the core");
    }
    plan.fabric.rack_links.push_back(
        site.racks.size() > 1 ? link_plan(rack.uplink, rack.place, "rack") : sim::LinkPlan{});
    if (!rack.switch_node) continue;
    const SiteHost& host = site.hosts[rack.switch_node->host];
    plan.fabric.switch_rack.push_back(host.rack);
    plan.fabric.switch_links.push_back(link_plan(host.link, host.place, "host"));
  }
  for (const SiteServer& server : site.servers) {
    const SiteHost& host = site.hosts[server.host];
    plan.fabric.server_rack.push_back(host.rack);
    plan.fabric.server_links.push_back(link_plan(host.link, host.place, "host"));
  }
}

// The part of the job on one server: streams of its own, and one socket per rank.
sim::JobPlan shard_of(const Site& site, const JobPlacement& placement, std::uint32_t server,
                      std::uint64_t fragments) {
  const std::vector<int> numbers = switch_numbers(site);
  const auto first_of = [&numbers](const std::vector<std::uint32_t>& switches, std::size_t index) {
    return index < switches.size() ? numbers[switches[index]] : -1;
  };
  sim::JobPlan job;
  job.world_size = static_cast<std::uint16_t>(placement.world_size);
  job.first_stream = static_cast<std::uint16_t>(2 * server);
  job.max_value_count = kSiteValues;
  job.number_format = NumberFormat::kBlocks;
  job.stream_count = 2;
  job.server = server;
  job.operations.emplace_back();
  job.operations.back().spec.count = fragments * kSiteValues;
  for (const PlacedRanks& placed : placement.hosts) {
    const SiteHost& host = site.hosts[placed.host];
    const auto parts = static_cast<std::uint32_t>(placed.ranks * site.servers.size());
    const int parent = first_of(switches_between(site, host.rack, server), 0);
    job.rack.insert(job.rack.end(), placed.ranks, host.rack);
    job.parent.insert(job.parent.end(), placed.ranks, parent);
    job.link.insert(job.link.end(), placed.ranks, link_plan(host.link, host.place, "host", parts));
  }
  for (std::uint32_t rack = 0; rack < site.racks.size(); ++rack) {
    if (numbers[rack] < 0) continue;
    job.uplink.push_back(first_of(switches_between(site, rack, server), 1));
  }
  return job;
}

constexpr Duration kJoinLimit = std::chrono::seconds(30);

double to_ms(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

struct Played {
  sim::Outcome outcome;
  Duration joining{};
  Duration reducing{};
};

Played play(sim::World& world) {
  Played played;
  world.run(kJoinLimit, [&world] { return world.all(&sim::Application::joined); });
  const Instant begin = world.now();
  world.run_to_completion();
  played.joining = begin.time_since_epoch();
  played.reducing = world.now() - begin;
  sim::Tally tally;
  played.outcome = sim::run_to_the_end(world, tally);
  return played;
}

// The blocks' exponents travel as fragments too.
void print_servers(const Site& site, sim::World& world) {
  std::uint64_t fragments = 0;
  std::uint64_t by_one_packet = 0;
  for (std::uint32_t i = 0; i < world.plan().servers; ++i) {
    const auto& counters = world.server(i).counters();
    fragments += counters[ServerCounter::kFragmentsCompleted];
    by_one_packet += counters[ServerCounter::kFragmentsCompletedByOnePacket];
    fmt::print("server {}: {} gradients, {} bytes\n", site.hosts[site.servers[i].host].name,
               counters[ServerCounter::kGradientsReceived],
               counters[ServerCounter::kGradientBytesReceived]);
  }
  fmt::print("summed in the switches: {} of {} fragments, {:.2f}%\n", by_one_packet, fragments,
             100.0 * static_cast<double>(by_one_packet) / static_cast<double>(fragments));
}

// Of this program alone: getrusage() includes the process that started it.
long most_memory_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stol(line.substr(6)) / 1024;
  }
  return 0;
}

}  // namespace

sim::Plan world_of(const Site& site, const JobPlacement& placement, std::uint32_t fragments) {
  sim::Plan plan;
  plan.servers = static_cast<std::uint32_t>(site.servers.size());
  set_fabric(site, plan);
  plan.switches = static_cast<std::uint32_t>(plan.fabric.switch_rack.size());
  plan.switch_config.aggregators = aggregators_of(site, plan.switches);
  plan.switch_config.max_value_count = kSiteValues;
  plan.switch_config.max_trees = 16;
  plan.server_config.max_jobs = 16;
  plan.server_config.max_value_count = kSiteValues;
  for (std::uint32_t server = 0; server < plan.servers; ++server) {
    const std::uint32_t part =
        fragments / plan.servers + (server < fragments % plan.servers ? 1 : 0);
    if (part > 0) plan.jobs.push_back(shard_of(site, placement, server, part));
  }
  return plan;
}

sim::Ending run_site(const SimSiteOptions& options) {
  const Site site = value_or_throw(read_site_file(options.file));
  const JobPlacement placement =
      value_or_throw(place_job(site, names_in(options.hosts), options.ranks_per_host));
  const sim::Plan plan =
      value_or_throw(read_or_error([&] { return world_of(site, placement, options.fragments); }));
  sim::World world(plan);
  const Played played = play(world);
  if (played.outcome.ending != sim::Ending::kHeld) {
    fmt::print(stderr, "{}", played.outcome.report);
  }
  const double bytes = 4.0 * kSiteValues * options.fragments;
  const double ms = to_ms(played.reducing);
  const auto s = [](std::size_t number) { return number == 1 ? "" : "s"; };
  fmt::print("{} rank{} on {} host{}, {} switch{} of {} aggregators, {} server{}\n",
             placement.world_size, s(placement.world_size), placement.hosts.size(),
             s(placement.hosts.size()), plan.switches, plan.switches == 1 ? "" : "es",
             plan.switch_config.aggregators, plan.servers, s(plan.servers));
  fmt::print("all-reduce of {:.0f} bytes: {:.3f} ms, {:.3f} Gbit/s of sums ({:.3f} ms to join)\n",
             bytes, ms, bytes * 8 / ms / 1e6, to_ms(played.joining));
  print_servers(site, world);
  return played.outcome.ending;
}

sim::Ending run_cluster(const sim::ClusterShape& shape) {
  const auto begin = std::chrono::steady_clock::now();
  const sim::Plan plan = sim::cluster_plan(shape);
  sim::World world(plan);
  sim::Tally tally;
  world.run_to_completion();
  const std::chrono::duration<double, std::milli> simulated = world.now().time_since_epoch();
  const sim::Outcome outcome = sim::run_to_the_end(world, tally);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (outcome.ending != sim::Ending::kHeld) fmt::print(stderr, "{}", outcome.report);
  fmt::print("ranks,racks,seconds,mib,packets,simulated_ms,fragments_by_one_packet\n");
  fmt::print("{},{},{:.3f},{},{},{:.3f},{}\n", shape.workers, plan.switches - 1, took.count(),
             most_memory_mib(), world.packets_sent(), simulated.count(),
             world.server().counters()[ServerCounter::kFragmentsCompletedByOnePacket]);
  return outcome.ending;
}

}  // namespace atp
