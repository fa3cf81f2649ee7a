#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "atp/cli/command/command.h"
#include "atp/cli/run/host_plan.h"
#include "atp/config/site/routes.h"
#include "atp/config/site/site_reader.h"

namespace atp {
namespace {

constexpr const char* kClusterExamples = R"(Examples:
  atp cluster cluster.yaml
      check the file; show the ranks, route, switches and servers of each host
  atp cluster cluster.yaml --json
      print the same for programs, including the links)";

using Json = nlohmann::ordered_json;

struct ClusterOptions {
  std::string file;
  bool json = false;
};

Json link_json(const SiteLink& link) {
  return {{"bits_per_s", link.bandwidth * 8}, {"latency_s", link.latency_s}};
}

Json rack_json(const Site& site, const SiteRack& rack) {
  return {{"name", rack.name},
          {"above", rack.above ? site.racks[*rack.above].name : "core"},
          {"uplink", link_json(rack.uplink)}};
}

Json host_json(const Site& site, std::uint32_t index) {
  const SiteHost& host = site.hosts[index];
  Json services = Json::array();
  for (const NodePlan& plan : nodes_of(site, index)) {
    services.push_back({{"role", plan.role}, {"name", plan.name}, {"address", plan.listen}});
  }
  return {{"name", host.name},
          {"rack", site.racks[host.rack].name},
          {"address", host.address},
          {"ranks", host.ranks},
          {"link", link_json(host.link)},
          {"route", route_text(site, index)},
          {"services", services}};
}

Json site_json(const Site& site) {
  Json racks = Json::array(), hosts = Json::array();
  for (const SiteRack& rack : site.racks) racks.push_back(rack_json(site, rack));
  for (std::uint32_t i = 0; i < site.hosts.size(); ++i) hosts.push_back(host_json(site, i));
  Json weights = Json::array();
  for (const JobWeight& entry : site.weights.value_or(std::vector<JobWeight>())) {
    weights.push_back({{"first_job", entry.first},
                       {"last_job", entry.last},
                       {"tenant", entry.tenant},
                       {"weight", entry.weight}});
  }
  return {{"name", site.name}, {"racks", racks}, {"hosts", hosts}, {"jobs", weights}};
}

void print_host(const Site& site, std::uint32_t index) {
  const SiteHost& host = site.hosts[index];
  fmt::print("{} ({}, rack {})\n", host.name, host.address, site.racks[host.rack].name);
  for (const NodePlan& plan : nodes_of(site, index)) {
    fmt::print("  {} on {}\n", plan.name, plan.listen);
  }
  if (host.ranks == 0) return;
  fmt::print("  {} rank{}, route {}\n", host.ranks, host.ranks == 1 ? "" : "s",
             route_text(site, index));
}

void run_cluster_command(const ClusterOptions& options) {
  const Site site = value_or_throw(read_site_file(options.file));
  if (options.json) {
    fmt::print("{}\n", site_json(site).dump(2));
    return;
  }
  for (std::uint32_t i = 0; i < site.hosts.size(); ++i) print_host(site, i);
  for (const JobWeight& entry : site.weights.value_or(std::vector<JobWeight>())) {
    fmt::print("{}: weight {}\n", entry.jobs_text(), entry.weight);
  }
}

}  // namespace

void add_cluster_command(const Command& program) {
  const Command command =
      program.add_command("cluster", "Check a cluster file, and show what each host runs");
  command.footer(kClusterExamples);
  const auto options = std::make_shared<ClusterOptions>();
  command.add_option("file", options->file, "Cluster file, - for standard input")
      .type_name("FILE")
      .required();
  command.add_flag("--json", options->json, "Print JSON");
  command.callback([options] { run_cluster_command(*options); });
}

}  // namespace atp
