#include "atp/cli/node/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <span>

#include "atp/cli/command/command.h"
#include "atp/cli/status/job_findings.h"
#include "atp/cli/status/scarcity.h"
#include "atp/driver/udp/address.h"
#include "atp/wire/host_text.h"

namespace atp {
namespace {

std::string host_of(const Endpoint& home) { return home.unset() ? "" : host_text(home); }

double seconds_of(Duration duration) {
  return std::round(std::chrono::duration<double>(duration).count() * 1000) / 1000;
}

std::uint64_t microseconds_of(Duration duration) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

// `waits`: a WaitedFor or what a server has told a tree. `home_of(rank)`: where it is, for the
// first `named` ranks.
StuckJob stuck_of(const auto& waits, const CauseText& operation, Instant now, std::size_t named,
                  auto&& home_of) {
  const double waited_s = seconds_of(now - waits.since);
  StuckJob stuck{.waited_s = waited_s,
                 .since_s = seconds_since_1970() - waited_s,
                 .stream = waits.stream,
                 .sequence = waits.sequence,
                 .operation = std::string(operation.view()),
                 .fingerprint = waits.operation};
  stuck.ranks.reserve(waits.ranks.size());
  waits.ranks.for_each([&](Rank rank) {
    const bool is_named = stuck.ranks.size() < named;
    stuck.ranks.push_back({rank, is_named ? host_of(home_of(rank)) : ""});
  });
  return stuck;
}

// Only ranks with measurements.
std::vector<RankDelay> delays_of(std::span<const RankLateness> lateness) {
  std::vector<RankDelay> delays;
  for (std::size_t rank = 0; rank < lateness.size(); ++rank) {
    const RankLateness& of = lateness[rank];
    if (of.first.count() == 0) continue;
    delays.push_back({.rank = rank,
                      .operations = of.first.count(),
                      .first_p50_us = microseconds_of(of.first.quantile(0.5)),
                      .first_p99_us = microseconds_of(of.first.quantile(0.99)),
                      .last_p50_us = microseconds_of(of.last.quantile(0.5)),
                      .last_p99_us = microseconds_of(of.last.quantile(0.99))});
  }
  return delays;
}

std::string tenant_of(const JobKey& key, const Keyring* keys) {
  return keys == nullptr ? "" : keys->name_of(key.tenant);
}

// By rank.
std::vector<std::string> hosts_of(const JobSummary& job) {
  std::vector<std::string> hosts;
  hosts.reserve(job.terms.world_size);
  for (Rank rank = 0; rank < job.terms.world_size; ++rank) {
    hosts.push_back(host_of(job.home_of(rank)));
  }
  return hosts;
}

JobStatus job_of(const JobSummary& job, Instant now, const Keyring* keys, std::size_t named) {
  JobStatus status{.job = job.terms.key.job,
                   .incarnation = job.terms.key.incarnation,
                   .first_stream = job.terms.first_stream,
                   .streams = job.terms.stream_count,
                   .world_size = job.terms.world_size,
                   .values_per_fragment = job.terms.value_count,
                   .joined = job.joined,
                   .detached = job.detached,
                   .left = job.left,
                   .tenant = tenant_of(job.terms.key, keys),
                   .state = job.joining ? "joining" : "running",
                   .missing = job.missing,
                   .lost = job.lost,
                   .waited_for = job.waited_for,
                   .fragments = job.progress.fragments,
                   .fragments_as_floats = job.progress.as_floats,
                   .fragments_summed_in_switches = job.progress.in_least_packets,
                   .has_switches = job.has_switches};
  if (job.stuck) {
    status.stuck = stuck_of(*job.stuck, job.stuck_operation, now, named,
                            [&](Rank rank) { return job.home_of(rank); });
  }
  return status;
}

JobStatus job_of(const Tree& tree, Instant now, const Keyring* keys, std::size_t named) {
  JobStatus status{
      .job = tree.job().job,
      .incarnation = tree.job().incarnation,
      .first_stream = tree.streams().first,
      .streams = tree.streams().count,
      .world_size = tree.world_size(),
      .values_per_fragment = tree.value_count(),
      // While the job is joining, those whose JOIN has come count; later only members do.
      .joined = tree.joining() ? tree.known() : tree.membership().attached() - tree.left(),
      .detached = tree.membership().detached(),
      .left = tree.left(),
      .tenant = tenant_of(tree.job(), keys)};
  if (const auto waits = tree.waiting(now)) {
    std::size_t i = 0;
    status.stuck = stuck_of(*waits, waits->description, now, named, [&](Rank) {
      return i < waits->home_count ? waits->homes[i++] : Endpoint{};
    });
  }
  return status;
}

// What a job has wanted of a switch through all of its trees.
using WantedByJob = std::map<Shares::Id, Wanted>;

WantedByJob wanted_by_job(const SwitchNode& node) {
  WantedByJob wanted;
  node.for_each_tree([&](const Tree& tree, const atp_share&) {
    const Demand& demand = tree.demand();
    wanted[tree.share()].add(static_cast<double>(demand.found + demand.collided),
                             static_cast<double>(demand.collided));
  });
  return wanted;
}

SwitchAggregators aggregators_of(const SwitchNode& node, const WantedByJob& wanted) {
  const SwitchConfig& config = node.config();
  Wanted of_all;
  for (const auto& [share, of_job] : wanted) of_all.add(of_job.gradients, of_job.collided);
  return {.total = config.aggregators,
          .held = node.aggregators_in_use(),
          .enough = enough_aggregators(config.aggregators, of_all),
          .partitions = config.sharing.partitions,
          .quota = config.sharing.quota,
          .places = config.places,
          .first_come = config.sharing.first_come};
}

JobAggregators aggregators_of(const Tree& tree, const atp_share& share, const SwitchNode& node,
                              const Wanted& wanted) {
  const Demand& demand = tree.demand();
  const Shares& shares = node.shares();
  const std::uint32_t limit = shares.limit(tree.share());
  return {.first = share.first,
          .size = share.size,
          .quota = share.quota,
          .limit = limit,
          .part = shares.part(tree.share()),
          .weight = shares.weight(tree.share()),
          .held = share.held,
          .gradients = demand.found + demand.collided,
          .collided = demand.collided,
          .gain = gain_of(wanted, tree.membership().children().size(), limit,
                          node.config().aggregators)};
}

// The nonzero counters with the prefix "drop_", without the prefix.
CounterSnapshot drops_of(const CounterSnapshot& counters) {
  constexpr std::string_view kPrefix = "drop_";
  CounterSnapshot drops;
  for (const auto& [name, value] : counters) {
    if (value > 0 && name.starts_with(kPrefix)) {
      drops.emplace_back(name.substr(kPrefix.size()), value);
    }
  }
  return drops;
}

std::string failure_text(const JobFailure& failure) {
  const std::string who =
      fmt::format("rank {}{}", static_cast<std::uint32_t>(failure.rank),
                  failure.home.unset() ? "" : " (" + host_text(failure.home) + ")");
  return failure.cause.empty() ? who + " was lost: nothing came from it for a lease"
                               : fmt::format("{} left: {}", who, failure.cause.view());
}

// What servers and switches share.
NodeStatus head(std::string_view role, std::string listen, bool draining,
                CounterSnapshot counters) {
  return {.role = std::string(role),
          .listen = std::move(listen),
          .version = kProgramVersion,
          .wire_version = ATP_VERSION,
          .time_s = seconds_since_1970(),
          .draining = draining,
          .drops = drops_of(counters),
          .counters = std::move(counters)};
}

}  // namespace

std::vector<std::string> CounterWatch::lines(const CounterSnapshot& counters) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    const std::uint64_t value = value_of(counters, watched_[i].name);
    if (value > last_[i]) {
      const std::uint64_t rise = value - last_[i];
      const std::string_view what = rise == 1 ? watched_[i].one : watched_[i].several;
      result.push_back(fmt::format("{} {} ({} so far)", rise, what, value));
    }
    last_[i] = value;
  }
  return result;
}

std::vector<JobStatus> jobs_of(const Server& server, Instant now, const Keyring* keys) {
  std::vector<JobStatus> jobs;
  jobs.reserve(server.job_count());
  server.for_each_job(
      now, [&](const JobSummary& job) { jobs.push_back(job_of(job, now, keys, kMostNamed)); });
  return jobs;
}

std::vector<JobStatus> jobs_of(const SwitchNode& node, Instant now, const Keyring* keys) {
  std::vector<JobStatus> jobs;
  jobs.reserve(node.trees());
  node.for_each_tree([&](const Tree& tree, const atp_share&) {
    jobs.push_back(job_of(tree, now, keys, kMostNamed));
  });
  return jobs;
}

std::vector<FailedJob> failures_of(const Server& server, Instant now, const Keyring* keys) {
  std::vector<FailedJob> failures;
  for (const JobFailure& failure : server.failures()) {
    const std::chrono::duration<double> ago = now - failure.at;
    failures.push_back({.job = failure.job.job,
                        .incarnation = failure.job.incarnation,
                        .rank = failure.rank,
                        .why = failure_text(failure),
                        .ago_s = ago.count(),
                        .since_s = seconds_since_1970() - ago.count(),
                        .tenant = tenant_of(failure.job, keys)});
  }
  return failures;
}

NodeStatus status_of(std::string_view role, std::string listen, const Server& server, Instant now,
                     CounterSnapshot counters, const Keyring* keys) {
  const Counters<ServerCounter>& own = server.counters();
  NodeStatus status = head(role, std::move(listen), server.draining(), std::move(counters));
  status.fragments = own[ServerCounter::kFragmentsCompleted];
  status.fragments_summed_in_switches = own[ServerCounter::kFragmentsCompletedInLeastPackets];
  status.fragments_as_floats = own[ServerCounter::kFragmentsCompletedFloat];
  status.has_switches = status.fragments_summed_in_switches > 0;
  status.jobs.reserve(server.job_count());
  server.for_each_job(now, [&](const JobSummary& job) {
    JobStatus& of = status.jobs.emplace_back(job_of(job, now, keys, kMaxRanks));
    of.hosts = hosts_of(job);
    of.lateness = delays_of(job.lateness);
    status.has_switches |= job.has_switches;
  });
  status.failures = failures_of(server, now, keys);
  return status;
}

NodeStatus status_of(std::string_view role, std::string listen, const SwitchNode& node, Instant now,
                     CounterSnapshot counters, const Keyring* keys) {
  const Counters<SwitchCounter>& own = node.counters();
  NodeStatus status = head(role, std::move(listen), node.draining(), std::move(counters));
  const WantedByJob wanted = wanted_by_job(node);
  status.aggregators = aggregators_of(node, wanted);
  status.sums_completed = own[SwitchCounter::kCompleteSumsSent];
  status.gradients_summed = own[SwitchCounter::kGradientsSummed];
  status.collisions = own[SwitchCounter::kCollisions];
  status.jobs.reserve(node.trees());
  node.for_each_tree([&](const Tree& tree, const atp_share& share) {
    JobStatus& of = status.jobs.emplace_back(job_of(tree, now, keys, kMaxRanks));
    of.parent = to_string(tree.parent());
    of.children = tree.membership().children().size();
    of.lateness = delays_of(tree.lateness().of_ranks());
    of.aggregators = aggregators_of(tree, share, node, wanted.at(tree.share()));
  });
  return status;
}

}  // namespace atp
