#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "atp/base/time.h"
#include "atp/cli/node/node_keys.h"
#include "atp/cli/status/finding.h"
#include "atp/core/dataplane/switch_node.h"
#include "atp/core/server/server.h"

// What a switch or server finds of the nodes and ranks next to it: those about which ICMP errors
// came, and a parent that does not answer. So whoever reads the log of a node that works
// learns which one does not.

namespace atp {

// ICMP errors since the last lines, by address.
class UnreachableLog {
 public:
  static constexpr std::size_t kMaxPeers = 8;

  void add(const Endpoint& peer);
  // "6 ICMP errors (6 so far): 10.77.3.10:5501 is unreachable"; without errors nothing.
  std::vector<std::string> lines();

 private:
  std::map<Endpoint, std::uint64_t> errors_;
  std::uint64_t of_others_ = 0;  // beyond kMaxPeers
  std::uint64_t so_far_ = 0;
};

// The nodes next above that have not answered the questions that a switch passed on for its ranks,
// each with one of its jobs.
std::vector<Finding> silent_parents_of(const SwitchNode& node, Instant now, const JobNames& names);
inline std::vector<Finding> silent_parents_of(const Server&, Instant, const JobNames&) {
  return {};
}

}  // namespace atp
