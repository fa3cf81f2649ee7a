#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "atp/base/result.h"

// What a node has answered (docs/status.md), as plain values. The bytes come from the network and
// may be anybody's: a value whose type is not the promised one makes the answer unreadable, texts
// are shortened and made plain, and lists are bounded.

namespace atp {

using RankList = std::vector<std::uint32_t>;  // ascending

struct RankDelay {
  std::uint32_t rank = 0;
  std::uint64_t operations = 0;
  std::uint64_t first_p50_us = 0;
  std::uint64_t first_p99_us = 0;
  std::uint64_t last_p50_us = 0;
  std::uint64_t last_p99_us = 0;

  // By how much it is later than the others, in the median of its operations.
  std::uint64_t typical_us() const { return std::max(first_p50_us, last_p50_us); }
};

struct StuckJob {
  std::vector<std::pair<std::uint32_t, std::string>> ranks;  // each with its host, "" if unknown
  double waited_s = 0;
  std::string operation;  // as the ranks call it; "" if unknown
};

// Which job something is about: its number, whose it is, its incarnation.
using JobName = std::tuple<std::uint64_t, std::string, std::uint64_t>;
template <class AboutJob>
JobName name_of_job(const AboutJob& one) {
  return {one.job, one.tenant, one.incarnation};
}

// Why a job has failed, as its server knows it.
struct FailedJob {
  std::uint64_t job = 0;
  std::uint64_t incarnation = 0;
  std::string why;
  std::string tenant = {};  // as of JobStatus
  bool operator==(const FailedJob&) const = default;
};

// One range of streams of a job, as one node knows it.
struct JobStatus {
  std::uint64_t job = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t first_stream = 0;
  std::uint64_t world_size = 0;
  std::uint64_t values_per_fragment = 0;
  std::string tenant;  // "" on a node without keys
  bool joining = false;
  RankList joined, missing, detached, waited_for, lost, left;
  std::optional<StuckJob> stuck;
  std::vector<RankDelay> delays;
  // Of a server.
  std::vector<std::string> hosts;  // by rank, "" if unknown
  std::uint64_t fragments = 0;
  std::uint64_t fragments_as_floats = 0;
  std::uint64_t fragments_summed_in_switches = 0;
  bool has_switches = false;
  // Of a switch.
  std::string parent;
  std::uint64_t gradients = 0;  // that looked for an aggregator
  std::uint64_t collided = 0;   // those that found none
  std::uint64_t held = 0;       // aggregators, of all its streams
  std::uint64_t part = 0;       // what it may hold while jobs contend for them
  std::uint64_t limit = 0;      // what it may ever hold
  std::uint64_t children = 0;   // that send its gradients
};

struct NodeStatus {
  bool is_switch = false;
  std::string listen;
  std::string version;
  std::uint64_t aggregators = 0;
  std::uint64_t aggregators_held = 0;
  std::vector<JobStatus> jobs;
  std::vector<FailedJob> failures;  // the last ones
  std::map<std::string, std::uint64_t> counters;

  std::uint64_t counter(const std::string& name) const {
    const auto found = counters.find(name);
    return found == counters.end() ? 0 : found->second;
  }
};

// From the reply of the node at `address`, read to its end.
Result<NodeStatus> read_node_status(const std::string& address, const std::string& reply);

}  // namespace atp
