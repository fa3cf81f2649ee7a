#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/cli/status/job_name.h"

// What a switch or server says of itself (docs/operate/status.md), as plain values. A member is a
// key of the JSON if its describe() lists it, for status_json.cc's writer and reader alike: `key`.
// An unknown text is empty here and null there.

namespace atp {

// Hands over the members, with their names in one text: "job, incarnation".
#define ATP_KEYS(...) key(#__VA_ARGS__, __VA_ARGS__)

// Names and values, in the node's order.
using CounterSnapshot = std::vector<std::pair<std::string, std::uint64_t>>;

inline std::uint64_t value_of(const CounterSnapshot& counters, std::string_view name) {
  const auto found = std::find_if(counters.begin(), counters.end(),
                                  [&](const auto& one) { return one.first == name; });
  return found == counters.end() ? 0 : found->second;
}

// How late a rank's first and last packets of an operation arrive.
struct RankDelay {
  std::uint64_t rank = 0;
  std::uint64_t operations = 0;
  std::uint64_t first_p50_us = 0;
  std::uint64_t first_p99_us = 0;
  std::uint64_t last_p50_us = 0;
  std::uint64_t last_p99_us = 0;

  // By how much it is later than the others, in the median of its operations.
  std::uint64_t typical_us() const { return std::max(first_p50_us, last_p50_us); }

  void describe(auto& key) {
    ATP_KEYS(rank, operations, first_p50_us, first_p99_us, last_p50_us, last_p99_us);
  }
};

struct StuckRank {
  std::uint64_t rank = 0;
  std::string host;

  void describe(auto& key) { ATP_KEYS(rank, host); }
};

// The ranks that hold up an operation.
struct StuckJob {
  std::vector<StuckRank> ranks;
  double waited_s = 0;
  double since_s = 0;  // seconds since 1970
  std::uint64_t stream = 0;
  std::uint64_t sequence = 0;
  std::string operation;  // as the ranks call it
  std::uint64_t fingerprint = 0;

  void describe(auto& key) {
    ATP_KEYS(ranks, waited_s, since_s, stream, sequence, operation, fingerprint);
  }
};

// What a job gets of a switch's aggregators.
struct JobAggregators {
  std::uint64_t first = 0;
  std::uint64_t size = 0;
  std::uint64_t quota = 0;
  std::uint64_t limit = 0;      // what it may ever hold
  std::uint64_t part = 0;       // what it may hold while jobs contend for them
  std::uint64_t weight = 0;     // 0: an earlier release, which does not say this nor the part
  std::uint64_t held = 0;       // by all its streams
  std::uint64_t gradients = 0;  // that looked for one
  std::uint64_t collided = 0;   // those that found none
  double gain = 0;

  void describe(auto& key) {
    ATP_KEYS(first, size, quota, limit, part, weight, held, gradients, collided, gain);
  }
};

// One range of streams of a job, as one node knows it.
struct JobStatus {
  std::uint64_t job = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t first_stream = 0;
  std::uint64_t streams = 0;
  std::uint64_t world_size = 0;
  std::uint64_t values_per_fragment = 0;
  RankSet joined, detached, left;
  std::optional<StuckJob> stuck;
  std::vector<RankDelay> lateness;
  std::string tenant;  // "" on a node without keys
  // Of a server.
  std::string state;
  std::vector<std::string> hosts;  // by rank
  RankSet missing, lost, waited_for;
  std::uint64_t fragments = 0;
  std::uint64_t fragments_as_floats = 0;
  std::uint64_t fragments_summed_in_switches = 0;
  bool has_switches = false;
  // Of a switch.
  std::string parent;
  std::uint64_t children = 0;  // that send its gradients
  JobAggregators aggregators;

  bool joining() const { return state == "joining"; }

  void describe(auto& key) {
    ATP_KEYS(job, incarnation, first_stream, streams, world_size, values_per_fragment, joined,
             detached, left, stuck, lateness);
    if (key.is_switch || key.kIsReader) ATP_KEYS(parent, children, aggregators);
    if (!key.is_switch || key.kIsReader) {
      ATP_KEYS(state, hosts, missing, lost, waited_for, fragments, fragments_as_floats,
               fragments_summed_in_switches, has_switches);
    }
    if (!tenant.empty() || key.kIsReader) ATP_KEYS(tenant);
  }
};

// Why a job has failed, as its server knows it.
struct FailedJob {
  std::uint64_t job = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t rank = 0;
  std::string why;
  double ago_s = 0;
  double since_s = 0;
  std::string tenant;  // as of JobStatus

  void describe(auto& key) {
    ATP_KEYS(job, incarnation, rank, why, ago_s, since_s);
    if (!tenant.empty() || key.kIsReader) ATP_KEYS(tenant);
  }
};

struct SwitchAggregators {
  std::uint64_t total = 0;
  std::uint64_t held = 0;
  std::uint64_t enough = 0;
  std::uint64_t partitions = 0;
  std::uint64_t quota = 0;
  std::uint64_t places = 0;
  bool first_come = false;

  void describe(auto& key) { ATP_KEYS(total, held, enough, partitions, quota, places, first_come); }
};

struct NodeStatus {
  std::string role;  // "switch" or "server"; or what a later version has
  std::string listen;
  std::string version;
  std::uint64_t wire_version = 0;
  double time_s = 0;  // its clock, in seconds since 1970
  bool draining = false;
  std::vector<JobStatus> jobs;
  CounterSnapshot drops;  // those that are not 0, by reason
  CounterSnapshot counters;
  // Of a server, for all jobs.
  std::uint64_t fragments = 0;
  std::uint64_t fragments_summed_in_switches = 0;
  std::uint64_t fragments_as_floats = 0;
  bool has_switches = false;
  std::vector<FailedJob> failures;  // the last ones
  // Of a switch.
  SwitchAggregators aggregators;
  std::uint64_t sums_completed = 0;
  std::uint64_t gradients_summed = 0;
  std::uint64_t collisions = 0;

  bool is_switch() const { return role == "switch"; }
  std::uint64_t counter(std::string_view name) const { return value_of(counters, name); }

  void describe(auto& key) {
    ATP_KEYS(role, listen, version, wire_version, time_s, draining);
    key.is_switch = is_switch();
    if (key.is_switch || key.kIsReader) {
      ATP_KEYS(aggregators, sums_completed, gradients_summed, collisions);
    }
    if (!key.is_switch || key.kIsReader) {
      ATP_KEYS(fragments, fragments_summed_in_switches, fragments_as_floats, has_switches,
               failures);
    }
    ATP_KEYS(jobs, drops, counters);
  }
};

#undef ATP_KEYS

// How many jobs these are. A job may have several stream ranges.
inline std::size_t jobs_in(const std::vector<JobStatus>& ranges) {
  std::set<JobName> jobs;
  for (const JobStatus& range : ranges) jobs.insert(name_of_job(range));
  return jobs.size();
}

inline double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace atp
