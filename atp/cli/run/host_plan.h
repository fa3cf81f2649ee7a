#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atp/cli/run/job_environment.h"
#include "atp/config/site/job_placement.h"
#include "atp/config/site/site.h"

// What `atp run` starts on one host: switches and servers, and a job's ranks; and what a cluster
// file gives to each of its hosts.

namespace atp {

// A switch or a server that `atp run` starts.
struct NodePlan {
  std::string role;  // "switch" or "server"
  std::string name;  // of its file of counters, too
  std::string listen = "127.0.0.1:0";
  std::uint32_t lane = 0;  // the way to a server goes through the switches of its lane
  std::vector<std::string> arguments;
};

// What `atp run` starts on one host.
struct HostPlan {
  std::vector<NodePlan> nodes;
  // Of the ranks to start; absent: none. Without a route it is the nodes': through all switches to
  // each server.
  std::optional<JobEnvironment> job;
  std::string host;  // as the cluster file calls it; empty without one
};

// The switches and servers that run on the host, each with the arguments that the file implies.
std::vector<NodePlan> nodes_of(const Site& site, std::uint32_t host);

struct JobOptions {
  std::uint32_t job = 0;
  std::optional<std::uint32_t> incarnation;
  std::uint16_t master_port = 0;  // 0: one that follows from the job
  std::uint32_t values = 0;
};

// What the job's ranks on the host are told.
JobEnvironment environment_of(const Site& site, const JobPlacement& placement,
                              const PlacedRanks& placed, const JobOptions& options);

}  // namespace atp
