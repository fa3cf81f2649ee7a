#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atp/base/time.h"
#include "atp/core/dataplane/switch_node.h"
#include "atp/core/server/server.h"
#include "atp/core/tenant.h"
#include "atp/core/worker/worker.h"
#include "atp/sim/faults.h"
#include "atp/sim/link.h"

// Everything that a run of the virtual network depends on, as plain data. A named scenario fills it
// in by hand; draw_plan() draws all of it from a seed.

namespace atp::sim {

enum class Values : std::uint8_t {
  kSmall,      // about ±1: the ordinary gradient
  kTiny,       // below half a unit of the fixed point, and denormals
  kTies,       // exactly between two integers
  kLarge,      // sums near the limit of an int32: some overflow, some do not
  kHuge,       // beyond an int32 already at the worker, up to the largest float32
  kOneHuge,    // one rank slightly beyond an int32, all others 0
  kNotFinite,  // NaN and ±Inf here and there
  kZero,       // +0 and −0
  kMixed,      // every magnitude that a float32 has, side by side
  kCount,
};

struct OperationPlan {
  OperationSpec spec;
  Values values = Values::kSmall;  // for floating-point types; integers are arbitrary
  bool in_place = false;
  std::vector<std::size_t> segments = {};  // lengths, if in blocks; none: a single one
};

// A job, or, if its ranks have several sockets (same key, other streams), one socket of each rank.
struct JobPlan {
  JobKey key{1, 1};
  std::uint16_t world_size = 2;
  std::uint16_t first_stream = 0;
  std::uint16_t stream_count = 1;  // at least 2, if the format is not the fixed scale
  std::uint16_t max_value_count = 4;
  std::vector<std::uint16_t> own_value_counts;  // by rank; missing: max_value_count
  NumberFormat number_format = NumberFormat::kFixed;
  OverflowPolicy overflow = OverflowPolicy::kReactive;
  CongestionPolicy congestion = CongestionPolicy::kAimd;
  bool room = true;
  bool plain_repeats = true;
  bool tolerance = true;
  std::vector<OperationPlan> operations;
  std::uint32_t max_in_flight = 4;    // operations that the application keeps in flight
  std::uint32_t max_operations = 64;  // operations that a worker has room for
  Duration think_max{};               // maximum pause of a worker before its next submission
  // Between the end of an operation and the next one: half to one and a half times this, the same
  // on all ranks. A pause ends when the faults stop, if there are any.
  Duration pause{};
  bool leave_at_once = false;  // each worker leaves as soon as it is done
  std::uint64_t data_seed = 1;
  std::uint64_t nonce_salt = 0x5eed;  // a second start with a different one claims the same ranks

  std::uint32_t server = 0;  // the server of these streams (a shard of the job)

  // By rank; a missing entry: starts at once, behind switch 0 if there is one, in rack 0.
  std::vector<Duration> start;
  std::vector<int> parent;  // index of its switch, −1: straight to the server
  std::vector<std::uint32_t> rack;
  std::vector<LinkPlan> link;  // missing: the fabric's for workers
  std::vector<Duration> late;  // behind the others in each step, in addition to the common pause
  // By switch: the next switch towards the server; missing or −1: the server itself.
  std::vector<int> uplink;

  // This rank submits another operation than the others, once.
  std::optional<Rank> deviator;
  // This rank leaves with a cause after so many operations.
  struct Abort {
    Rank rank = 0;
    std::uint64_t after = 0;
  };
  std::optional<Abort> abort;

  // By rank, for scenarios of wrong use: replaces the operations of that rank.
  std::vector<std::vector<OperationPlan>> own_operations;

  std::uint16_t value_count_of(Rank rank) const {
    return rank < own_value_counts.size() ? own_value_counts[rank] : max_value_count;
  }
};

// Where the nodes are and the links between them.
struct FabricPlan {
  LinkPlan worker{.delay = std::chrono::microseconds(10)};
  LinkPlan switch_node{.delay = std::chrono::microseconds(10)};
  LinkPlan server{.delay = std::chrono::microseconds(10)};
  LinkPlan rack;                           // between a rack and the core of the network
  Duration jitter{};                       // on each path
  std::vector<std::uint32_t> switch_rack;  // missing: rack 0
  std::vector<std::uint32_t> server_rack;
  // For single hosts and racks; missing: as above.
  std::vector<LinkPlan> switch_links, server_links, rack_links;

  // The longest time that a small packet takes through empty queues.
  Duration longest_delay() const {
    return worker.delay + switch_node.delay + server.delay + 2 * rack.delay + jitter;
  }
};

struct ValueCounts {
  std::uint16_t through_switches = 0;
  std::uint16_t straight = 0;
};

// By number; the first has no keys, and so no limits. Jobs may have weights of their own.
struct TenantQuotas final : Quotas {
  Quota of_tenant(std::uint16_t tenant) const override {
    return tenant < quotas.size() ? quotas[tenant] : Quota{};
  }
  std::uint32_t weight_of(const JobKey& job) const override {
    const auto own = weights.find({job.job, job.tenant});
    return own == weights.end() ? Quotas::weight_of(job) : own->second;
  }
  std::vector<Quota> quotas{{}};
  std::map<std::pair<std::uint32_t, std::uint16_t>, std::uint32_t> weights;  // by job and tenant
};

struct Plan {
  std::uint64_t seed = 1;
  std::uint32_t servers = 1;
  std::uint32_t switches = 1;
  SwitchConfig switch_config;
  std::vector<SwitchConfig> own_switch_configs;  // by switch; missing: as above
  ServerConfig server_config;
  Timing timing;  // of every node
  // The first sequence of every stream, and the first operation, of every job: 0, or so high that a
  // 32-bit number would soon wrap.
  std::uint64_t first_sequence = 0;
  OperationId first_operation = 0;
  std::vector<JobPlan> jobs;
  std::shared_ptr<const TenantQuotas> quotas;  // for every node; null: no limits

  FabricPlan fabric;
  std::vector<PathFaults> path_faults;  // each path takes one of these at random; empty: none
  std::vector<Outage> outages;
  double hostile = 0;             // probability per packet that an attacker sends one as well
  double report_unreachable = 0;  // probability that a packet to a dead node is reported
  // Aggregators, memory and links suffice for all, and at most single packets are lost: the run's
  // cost is judged.
  bool ample = false;
  std::uint32_t outbox_packets = 2048;  // until the faults stop; further packets of a turn are lost
  bool watched = false;  // every turn of a node is judged by docs/inside/protocol (world_watch.cc)
  Duration heal{};       // when faults stop; zero: there are none
  Duration bound = std::chrono::seconds(12);  // all must be done this long after the heal time

  // One nonce for all sockets of a rank.
  std::uint64_t nonce(const JobPlan& job, Rank rank) const {
    return (seed << 20) ^ (std::uint64_t{job.key.job} << 10) ^ rank ^ job.nonce_salt;
  }
  // The values of K on which a job may agree: the minimum of its ranks', its server's and its
  // switches' limits, or, if a rank could join past all switches, without theirs.
  ValueCounts value_counts(const JobPlan& job) const;
  // Whether a job may find no room at its server.
  bool is_crowded() const {
    const auto may_be_refused = [&](const JobPlan& job) {
      const Quota quota = quota_of(quotas.get(), job.key.tenant);
      return quota.jobs != 0 || quota.bytes != 0;
    };
    return server_config.max_jobs < jobs.size() ||
           std::any_of(jobs.begin(), jobs.end(), may_be_refused);
  }
  // Whether each rank joins through its switches. (A scenario's manual steps are not in the plan.)
  // A rank that is refused for lack of room through a switch joins past the switch, even if it was
  // the server that had no room.
  bool all_join_through_switches() const {
    if (!watched || heal != Duration{0} || is_crowded()) return false;
    for (std::uint32_t i = 0; i < switches; ++i) {
      const SwitchConfig& config = switch_config_of(i);
      if (config.max_trees < jobs.size()) return false;
      if (config.tree_memory_bytes < SwitchConfig{}.tree_memory_bytes) return false;
    }
    return true;
  }
  const SwitchConfig& switch_config_of(std::uint32_t index) const {
    return index < own_switch_configs.size() ? own_switch_configs[index] : switch_config;
  }
  // The switches between a rank and its server, nearest first.
  std::vector<std::uint32_t> switches_of(const JobPlan& job, Rank rank) const {
    return switches_from(job, rank < job.parent.size() ? job.parent[rank] : switches > 0 ? 0 : -1);
  }
  // The same from one switch on (−1: none).
  std::vector<std::uint32_t> switches_from(const JobPlan& job, int at) const {
    std::vector<std::uint32_t> list;
    while (at >= 0 && list.size() < switches) {
      list.push_back(static_cast<std::uint32_t>(at));
      at = list.back() < job.uplink.size() ? job.uplink[list.back()] : -1;
    }
    return list;
  }
};

// All of a plan, drawn from the seed: nine seeds of ten have faults.
Plan draw_plan(std::uint64_t seed);

// The plan as one line, for reports.
std::string describe(const Plan& plan);

}  // namespace atp::sim
