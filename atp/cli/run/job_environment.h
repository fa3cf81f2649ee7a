#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atp/base/result.h"

// The environment that `atp run` gives to ranks: torchrun's variables, so that programs written for
// torchrun run unchanged, and our own, so that programs need no store to find the job.

namespace atp {

struct JobEnvironment {
  std::size_t ranks = 0;  // of the job, over all hosts
  std::size_t first_rank = 0;
  std::size_t local_ranks = ranks;  // on this host, from first_rank on
  std::uint32_t job = 0;
  // Absent: the hosts of the job have no common one.
  std::optional<std::uint32_t> incarnation = std::nullopt;
  std::string route;  // "switch,server"; empty: not needed
  // Sum through the network even if all ranks are on this host and could share memory.
  bool takes_network = false;
  // Ranks per host, in rank order; empty: all are on this host.
  std::vector<std::size_t> ranks_of_hosts = {};
  // The address at which each rank of this host serves part of the job itself; empty: none does.
  std::vector<std::string> colocated_servers = {};
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 0;
  std::uint32_t values = 0;    // per fragment; 0: not given
  std::string expected_times;  // expected times of the network and the ring; empty: unknown
  std::string interface_name;  // that connects this host to the others; empty: unknown

  std::vector<std::pair<std::string, std::string>> of_rank(std::size_t rank) const;
  // What the user's environment has with other values, as "NAME=value, NAME=value"; empty: nothing.
  std::string replaced() const;
};

// A TCP port that is free now and that the kernel gives to no connection.
Result<std::uint16_t> free_tcp_port();

}  // namespace atp
