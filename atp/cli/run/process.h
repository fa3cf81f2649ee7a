#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "atp/base/result.h"
#include "atp/cli/run/host_plan.h"

// Starting programs.

namespace atp {

struct ProcessSpec {
  std::string path;  // empty: arguments[0], looked up in PATH
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;  // beside the inherited one
  int stdout_fd = -1;                                            // -1: inherited
  int stderr_fd = -1;
  std::vector<int> kept_fds;  // stay open in the program
};

// Starts the program in a process group of its own, with /dev/null as standard input and no signal
// blocked or ignored, to be killed by the kernel when this process ends. On failure `not_found`
// tells whether there is no such program.
struct StartFailure {
  std::string message;
  bool not_found = false;
};
struct Started {
  pid_t pid = -1;
  StartFailure failure;  // if pid is -1
};
Started start_process(const ProcessSpec& spec);

// As a shell would report how a process ended: its code, or 128 + signal.
int exit_code_of(int wait_status);
// "exited with code 3" or "was killed by signal 9 (Killed)".
std::string how_it_ended(int wait_status);

// Starts `atp <role> --listen <address> <arguments>` from this very program and waits until it
// listens. Throws CommandError if it does not within ten seconds; it has said why on standard
// error. `level` is what it logs.
struct StartedNode {
  pid_t pid = -1;
  std::string address;
};
StartedNode start_node_process(const NodePlan& plan, const std::string& level);

}  // namespace atp
