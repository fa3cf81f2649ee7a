#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atp/cli/run/job_environment.h"
#include "atp/config/site/job_placement.h"
#include "atp/config/site/site.h"

// What `atp run` starts on one host: switches, servers, and a job's ranks. For a cluster file, what
// each of its hosts runs.

namespace atp {

// A switch or a server that `atp run` starts.
struct NodePlan {
  std::string role;  // "switch" or "server"
  std::string name;  // also of its counter file
  std::string listen = "127.0.0.1:0";
  std::uint32_t lane = 0;  // routes to a server use the switches of its lane
  std::vector<std::string> arguments;

  // Whether it has files that SIGHUP makes it read again.
  bool reads_again() const {
    return std::any_of(arguments.begin(), arguments.end(), [](const std::string& argument) {
      return argument == "--keys" || argument == "--weights";
    });
  }
};

// What `atp run` starts on one host.
struct HostPlan {
  std::vector<NodePlan> nodes;
  // The environment of the ranks to start; absent: none. If it has no route, the route leads
  // through all of `nodes`' switches to each server.
  std::optional<JobEnvironment> job;
  std::string host;  // its name in the cluster file; empty without one
};

// The switches and servers on the host, with the arguments that follow from the file.
std::vector<NodePlan> nodes_of(const Site& site, std::uint32_t host);

struct JobOptions {
  std::uint32_t job = 0;
  std::optional<std::uint32_t> incarnation;
  std::uint16_t master_port = 0;  // 0: derived from the job number
  std::uint32_t values = 0;
  bool sums_on_hosts = true;  // the ranks of a host sum in its memory before one of them sends
};

// The environment of the job's ranks on the host.
JobEnvironment environment_of(const Site& site, const JobPlacement& placement,
                              const PlacedRanks& placed, const JobOptions& options);

}  // namespace atp
