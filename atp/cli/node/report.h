#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atp/base/result.h"
#include "atp/core/dataplane/switch_node.h"
#include "atp/core/server/server.h"
#include "atp/driver/keys/keyring.h"

// What a switch or server reports while it runs: its counters as JSON lines in a file, and a log
// line when an important counter has risen.

namespace atp {

using CounterSnapshot = std::vector<std::pair<std::string_view, std::uint64_t>>;

// One object per line: {"time_s": seconds since 1970, "role": "switch", "counters": {…}}.
double seconds_since_1970();
std::string to_json_line(double time_s, std::string_view role, const CounterSnapshot& counters);

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

// Ranks of a job that have held up an operation for a second although others have contributed to
// it: stopped, silent, cut off, or busy with something else.
struct StuckRanks {
  JobKey job;
  std::uint16_t first_stream = 0;
  std::vector<std::pair<Rank, Endpoint>> ranks;  // an endpoint may be unset
  Duration waited{};
  std::uint16_t stream = 0;
  std::uint64_t sequence = 0;
  std::uint32_t operation = 0;  // its fingerprint
  std::string description;      // "all_reduce #17 (1,000 values)"; empty: not known yet
};
std::vector<StuckRanks> stuck_ranks_of(const Server& server, Instant now);
// As the server reported them to its tree.
std::vector<StuckRanks> stuck_ranks_of(const SwitchNode& node, Instant now);
// "rank 2 (10.0.1.2) in all_reduce #17 (1,000 values)", "ranks 3 …".
std::string stuck_text(const StuckRanks& stuck);

// "rank 1 (10.0.1.1) left: its process was killed by signal 9 (Killed)", or that it was lost.
std::string failure_text(const JobFailure& failure);

// How many jobs the node knows: each incarnation is one, whatever its stream ranges.
std::size_t jobs_of(const Server& server, Instant now);
std::size_t jobs_of(const SwitchNode& node, Instant now);

// Shared, as that needs no complete type here.
using StatusDocument = std::shared_ptr<const nlohmann::ordered_json>;

// The status of a node for `atp status` and its metrics. docs/status.md lists the keys; later
// versions only add keys. `keys`: the node's, which have the names of the jobs' tenants; null: it
// has none.
StatusDocument status_of(std::string_view role, std::string_view listen, const Server& server,
                         Instant now, const CounterSnapshot& counters,
                         const Keyring* keys = nullptr);
StatusDocument status_of(std::string_view role, std::string_view listen, const SwitchNode& node,
                         Instant now, const CounterSnapshot& counters,
                         const Keyring* keys = nullptr);

}  // namespace atp
