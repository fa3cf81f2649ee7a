#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atp/base/result.h"

// What `atp run` tells the ranks by environment: torchrun's variables, so that programs written for
// torchrun run unchanged, and ours, so that programs need no store to find the job.

namespace atp {

struct JobEnvironment {
  std::size_t ranks = 0;  // of the job, on all hosts
  std::size_t first_rank = 0;
  std::size_t local_ranks = ranks;  // that run on this host, from first_rank on
  std::uint32_t job = 0;
  // Absent: the hosts of the job have not been told a common one.
  std::optional<std::uint32_t> incarnation = std::nullopt;
  std::string route;  // "switch,server"; empty: none is needed
  // Also where all ranks are on this host, and could share memory.
  bool takes_network = false;
  // How many ranks each host has, in the order of the ranks; empty: all are on this one.
  std::vector<std::size_t> ranks_of_hosts = {};
  // Where each rank of this host serves a part of the job itself; empty: none does.
  std::vector<std::string> own_servers = {};
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 0;
  std::uint32_t values = 0;    // per fragment; 0: not given
  std::string way_figures;     // what sums are expected to take on each way; empty: not known
  std::string interface_name;  // through which the hosts reach each other; empty: not known

  std::vector<std::pair<std::string, std::string>> of_rank(std::size_t rank) const;
};

// A TCP port that is free now, and that no connection is given.
Result<std::uint16_t> free_tcp_port();

}  // namespace atp
