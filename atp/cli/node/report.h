#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atp/cli/status/node_status.h"
#include "atp/core/dataplane/switch_node.h"
#include "atp/core/server/server.h"
#include "atp/driver/keys/keyring.h"

// What a switch or server reports while it runs: its status, and a log line when an important
// counter has risen.

namespace atp {

// A counter whose rise is logged: "1 rank left (1 so far)", "2 ranks left (3 so far)".
struct WatchedCounter {
  std::string_view name;
  std::string_view one;
  std::string_view several;
};

class CounterWatch {
 public:
  explicit CounterWatch(std::vector<WatchedCounter> watched) : watched_(std::move(watched)) {}

  // The lines for the counters that have risen since the last call.
  std::vector<std::string> lines(const CounterSnapshot& counters);

 private:
  std::vector<WatchedCounter> watched_;
  std::vector<std::uint64_t> last_ = std::vector<std::uint64_t>(watched_.size());
};

// Why the last jobs have failed: "rank 1 (10.0.1.1) left: its process was killed by signal 9
// (Killed)", or that it was lost.
std::vector<FailedJob> failures_of(const Server& server, Instant now,
                                   const Keyring* keys = nullptr);

// What a node tells of its jobs at any time: without what `atp status` alone asks for. Of the ranks
// that hold up a job, the first kMostNamed have their hosts.
// `keys`: the node's, which have the names of the jobs' tenants; null: it has none.
std::vector<JobStatus> jobs_of(const Server& server, Instant now, const Keyring* keys = nullptr);
std::vector<JobStatus> jobs_of(const SwitchNode& node, Instant now, const Keyring* keys = nullptr);

NodeStatus status_of(std::string_view role, std::string listen, const Server& server, Instant now,
                     CounterSnapshot counters, const Keyring* keys = nullptr);
NodeStatus status_of(std::string_view role, std::string listen, const SwitchNode& node, Instant now,
                     CounterSnapshot counters, const Keyring* keys = nullptr);

}  // namespace atp
