#pragma once

#include <optional>
#include <string>
#include <vector>

#include "atp/cli/job_environment.h"

namespace atp {

// A switch or a server that `atp run` starts.
struct NodePlan {
  std::string role;  // "switch" or "server"
  std::string name;  // of its file of counters, too
  std::string listen = "127.0.0.1:0";
  std::vector<std::string> arguments;
};

// What `atp run` starts on one host.
struct HostPart {
  std::vector<NodePlan> nodes;
  // Of the ranks to start; absent: none. Without a route it is the nodes': through all switches to
  // each server.
  std::optional<JobEnvironment> job;
  std::string host;  // as the cluster file calls it; empty without one
};

}  // namespace atp
