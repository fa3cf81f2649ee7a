#pragma once

#include <string>
#include <vector>

#include "atp/cli/process.h"

namespace atp {

// Starts `atp <role> --listen 127.0.0.1:0 <arguments>` from this very program and waits until it
// listens. Throws CommandError if it does not within ten seconds; it has said why on standard
// error.
struct StartedNode {
  pid_t pid = -1;
  std::string address;
};
StartedNode start_node_process(const std::string& role, const std::vector<std::string>& arguments);

}  // namespace atp
