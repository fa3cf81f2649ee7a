#include "atp/cli/doctor/doctor_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "atp/base/variables.h"
#include "atp/cli/command/command.h"
#include "atp/cli/command/machine.h"
#include "atp/cli/doctor/findings.h"
#include "atp/cli/doctor/probe.h"
#include "atp/collective/communicator.h"
#include "atp/collective/network/shards.h"
#include "atp/config/site/routes.h"
#include "atp/config/site/site_reader.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

constexpr const char* kDoctorExamples = R"(Examples:
  atp doctor 10.0.0.1:5501,10.0.0.9:5500
      check from this host that the switch and the server of this route are up and usable
  atp doctor
      check the route in ATP_ROUTE
  atp doctor --cluster /etc/atp/cluster.yaml
      check the switches and servers that the file places on this host's routes
  atp doctor 10.0.0.9:5500 --json
      print the findings for programs
Exit codes: 0 nothing is bad (there may be warnings), 1 something is bad, 2 wrong usage.)";

struct DoctorOptions {
  std::string route;
  std::string cluster_file;
  std::string host;
  bool json = false;
};

// The route of the ranks on a host, or of its switch: both are in its rack.
std::string route_of_host(const DoctorOptions& options) {
  const Site site = value_or_throw(read_site_file(options.cluster_file));
  const auto is_own = [](const std::string& address) { return !interface_with(address).empty(); };
  return route_text(site, value_or_throw(options.host.empty() ? site.find_own_host(is_own)
                                                              : site.find_host(options.host)));
}

std::string route_of(const DoctorOptions& options) {
  if (!options.cluster_file.empty()) return route_of_host(options);
  if (!options.route.empty()) return options.route;
  if (const auto given = value_of("ATP_ROUTE"); !given.empty()) return std::string(given);
  throw CommandError(
      "no route: list the switches and servers as HOST:PORT,…, or set ATP_ROUTE, or name a cluster "
      "file with --cluster FILE",
      kWrongUsage);
}

std::vector<Endpoint> nodes_of(const DoctorOptions& options) {
  const std::string route = route_of(options);
  CommunicatorOptions parsed;
  if (const Status read = parsed.set_routes(route); !read) {
    throw CommandError(read.error().message, kWrongUsage);
  }
  std::vector<Endpoint> nodes;
  for (const std::vector<Endpoint>& way : all_routes(parsed)) {
    for (const Endpoint& node : way) {
      if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
    }
  }
  return nodes;
}

void print_json(const std::vector<Finding>& findings) {
  nlohmann::ordered_json list;
  for (const Finding& finding : findings) list.push_back(to_json(finding));
  const nlohmann::ordered_json document{{"severity", to_string(worst_of(findings))},
                                        {"findings", std::move(list)}};
  fmt::print("{}\n", document.dump(2));
}

void run_doctor(const DoctorOptions& options) {
  const std::vector<Finding> findings = findings_of(look_around(nodes_of(options)));
  if (options.json) {
    print_json(findings);
  } else {
    for (const Finding& finding : findings) fmt::print("{}", table_row(finding));
  }
  if (worst_of(findings) == Severity::kBad) throw CommandEnd(kOperationFailed);
}

}  // namespace

void add_doctor_command(const Command& program) {
  const Command command = program.add_command("doctor",
                                              "Check from this host that switches and servers are "
                                              "reachable, and suggest fixes");
  command.footer(kDoctorExamples);
  const auto options = std::make_shared<DoctorOptions>();
  Option route = command
                     .add_option("route", options->route,
                                 "Switches and servers, as in ATP_ROUTE (default: ATP_ROUTE)")
                     .type_name("HOST:PORT,...");
  Option cluster =
      command
          .add_option("--cluster", options->cluster_file,
                      "Cluster file (docs/use/cluster.md): check the switches and servers "
                      "on the routes of this host's ranks")
          .type_name("FILE")
          .excludes(route);
  command
      .add_option("--host", options->host,
                  "This machine's name in the file (default: found by its addresses)")
      .type_name("NAME")
      .needs(cluster);
  command.add_flag("--json", options->json, "Print JSON (docs/operate/operations.md)");
  command.callback([options] { run_doctor(*options); });
}

}  // namespace atp
