#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "atp/base/result.h"
#include "atp/cli/run/host_plan.h"

// Starts programs and describes how they ended.

namespace atp {

struct ProcessSpec {
  std::string path;  // empty: arguments[0], looked up in PATH
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;  // in addition to the inherited one
  int stdout_fd = -1;                                            // -1: inherited
  int stderr_fd = -1;
  std::vector<int> kept_fds;  // stay open in the program
};

// Starts the program in its own process group, with /dev/null as standard input and no signal
// blocked or ignored. The kernel kills it when this process ends. On failure, `not_found` means
// that the program does not exist.
struct StartFailure {
  std::string message;
  bool not_found = false;
};
struct Started {
  pid_t pid = -1;
  StartFailure failure;  // if pid is -1
};
Started start_process(const ProcessSpec& spec);

// The exit code as a shell reports it: the process's code, or 128 + signal.
int exit_code_of(int wait_status);
// "exited with code 3" or "was killed by signal 9 (Killed)".
std::string how_it_ended(int wait_status);

// Starts `atp <role> --listen <address> <arguments>` from this program's file and waits until it
// listens. Throws CommandError if it does not within ten seconds; its own message is on standard
// error. `level` is its log level.
struct StartedNode {
  pid_t pid = -1;
  std::string address;
};
StartedNode start_node_process(const NodePlan& plan, const std::string& level);

}  // namespace atp
