#pragma once

#include <string>
#include <vector>

#include "atp/cli/host_part.h"
#include "atp/cli/process.h"

namespace atp {

// Starts `atp <role> --listen <address> <arguments>` from this very program and waits until it
// listens. Throws CommandError if it does not within ten seconds; it has said why on standard
// error. `level` is what it logs.
struct StartedNode {
  pid_t pid = -1;
  std::string address;
};
StartedNode start_node_process(const NodePlan& plan, const std::string& level);

}  // namespace atp
