#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atp/cli/run/host_plan.h"
#include "atp/cli/run/job_runner.h"

namespace atp {

// The options of `atp run`.
struct RunOptions {
  RunnerOptions runner;
  std::string stats_folder;
  double stats_interval_s = 1;
  std::uint32_t values = 0;  // per fragment; 0: not given
  std::string key_file;      // of the ranks, and of switches and servers; empty: none

  // On this machine alone.
  std::size_t ranks = 0;
  bool with_network = false;       // use a switch and a server although shared memory would do
  std::uint32_t servers = 1;       // at most kMaxServers
  bool colocated_servers = false;  // … one inside each rank's process
  std::uint32_t lanes = 1;         // switches with a server each
  bool without_switch = false;
  std::uint32_t aggregators = 0;  // of the switch; 0: its default

  // On a host of a cluster file.
  std::string cluster_file;
  std::string host;
  std::string hosts;  // of the job, comma-separated
  std::uint32_t ranks_per_host = 0;
  bool with_services = false;
  std::vector<std::string> status_from;  // networks, for the host's switches and servers
  std::vector<std::string> drain_from;   // likewise
  std::uint32_t job = 0;
  std::optional<std::uint32_t> incarnation;
  std::uint16_t master_port = 0;
};

// What these options start on this host. Throws CommandError.
HostPlan plan_of(const RunOptions& options);

}  // namespace atp
