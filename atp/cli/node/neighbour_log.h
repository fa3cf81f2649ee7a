#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "atp/base/time.h"
#include "atp/cli/command/log.h"
#include "atp/cli/node/node_keys.h"
#include "atp/core/dataplane/switch_node.h"
#include "atp/core/server/server.h"

// The log lines of a switch or server about the nodes and ranks next to it: those about which ICMP
// errors came, and a parent that does not answer. So whoever reads the log of a node that works
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

// A parent that has not answered the questions that a switch passed on for its ranks.
struct SilentParent {
  JobKey job;
  Endpoint parent;
};
std::vector<SilentParent> silent_parents_of(const SwitchNode& node, Instant now);
inline std::vector<SilentParent> silent_parents_of(const Server&, Instant) { return {}; }

class ParentLog {
 public:
  explicit ParentLog(const JobNames& names = JobNames()) : names_(names) {}

  // The lines for parents that have fallen silent, or have answered again, since the last call.
  std::vector<LogLine> lines(const std::vector<SilentParent>& silent);

 private:
  const JobNames names_;
  std::map<Endpoint, JobKey> known_;
};

}  // namespace atp
