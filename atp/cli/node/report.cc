#include "atp/cli/node/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>

#include "atp/cli/command/command.h"
#include "atp/cli/node/scarcity.h"
#include "atp/driver/udp/address.h"
#include "atp/wire/host_text.h"

namespace atp {
namespace {

std::uint64_t value_of(const CounterSnapshot& counters, std::string_view name) {
  for (const auto& [counter, value] : counters) {
    if (counter == name) return value;
  }
  return 0;
}

using Json = nlohmann::ordered_json;

Json json_of(const RankSet& ranks) {
  Json list = Json::array();
  ranks.for_each([&](Rank rank) { list.push_back(rank); });
  return list;
}

Json host_of(const Endpoint& home) { return home.unset() ? Json() : Json(host_text(home)); }

double seconds_of(Duration duration) {
  return std::round(std::chrono::duration<double>(duration).count() * 1000) / 1000;
}

std::uint64_t microseconds_of(Duration duration) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

// null if no rank is stuck.
Json json_of(const std::optional<StuckRanks>& stuck) {
  if (!stuck) return nullptr;
  Json ranks = Json::array();
  for (const auto& [rank, home] : stuck->ranks) {
    ranks.push_back({{"rank", rank}, {"host", host_of(home)}});
  }
  return {{"ranks", std::move(ranks)},
          {"waited_s", seconds_of(stuck->waited)},
          {"since_s", seconds_since_1970() - seconds_of(stuck->waited)},
          {"stream", stuck->stream},
          {"sequence", stuck->sequence},
          {"operation", stuck->description.empty() ? Json() : Json(stuck->description)},
          {"fingerprint", stuck->operation}};
}

// For one job of a server.
std::optional<StuckRanks> stuck_ranks_of(const JobSummary& job, Instant now) {
  if (!job.stuck) return std::nullopt;
  StuckRanks stuck{.job = job.terms.key,
                   .first_stream = job.terms.first_stream,
                   .ranks = {},
                   .waited = now - job.stuck->since,
                   .stream = job.stuck->stream,
                   .sequence = job.stuck->sequence,
                   .operation = job.stuck->operation,
                   .description = std::string(job.stuck_operation.view())};
  job.stuck->ranks.for_each([&](Rank rank) { stuck.ranks.emplace_back(rank, job.home_of(rank)); });
  return stuck;
}

std::optional<StuckRanks> stuck_ranks_of(const Tree& tree, Instant now) {
  const auto waiting = tree.waiting(now);
  if (!waiting) return std::nullopt;
  StuckRanks stuck{.job = tree.job(),
                   .first_stream = tree.streams().first,
                   .ranks = {},
                   .waited = now - waiting->since,
                   .stream = waiting->stream,
                   .sequence = waiting->sequence,
                   .operation = waiting->operation,
                   .description = std::string(waiting->description.view())};
  waiting->ranks.for_each([&](Rank rank) {
    const std::size_t i = stuck.ranks.size();
    stuck.ranks.emplace_back(rank, i < waiting->home_count ? waiting->homes[i] : Endpoint{});
  });
  return stuck;
}

// Only ranks with measurements.
Json json_of(std::span<const RankLateness> lateness) {
  Json list = Json::array();
  for (std::size_t rank = 0; rank < lateness.size(); ++rank) {
    const RankLateness& of = lateness[rank];
    if (of.first.count() == 0) continue;
    list.push_back({{"rank", rank},
                    {"operations", of.first.count()},
                    {"first_p50_us", microseconds_of(of.first.quantile(0.5))},
                    {"first_p99_us", microseconds_of(of.first.quantile(0.99))},
                    {"last_p50_us", microseconds_of(of.last.quantile(0.5))},
                    {"last_p99_us", microseconds_of(of.last.quantile(0.99))}});
  }
  return list;
}

// The keys that servers' and switches' jobs share.
Json job_head(const JobKey& key, std::uint16_t first_stream, std::uint16_t streams,
              std::size_t world_size) {
  return {{"job", key.job},
          {"incarnation", key.incarnation},
          {"first_stream", first_stream},
          {"streams", streams},
          {"world_size", world_size}};
}

// By rank.
Json hosts_of(const JobSummary& job) {
  Json hosts = Json::array();
  for (Rank rank = 0; rank < job.terms.world_size; ++rank) {
    hosts.push_back(host_of(job.home_of(rank)));
  }
  return hosts;
}

Json json_of(const JobSummary& job, Instant now) {
  Json json =
      job_head(job.terms.key, job.terms.first_stream, job.terms.stream_count, job.terms.world_size);
  json["state"] = job.joining ? "joining" : "running";
  json["values_per_fragment"] = job.terms.value_count;
  json["hosts"] = hosts_of(job);
  json["joined"] = json_of(job.joined);
  json["missing"] = json_of(job.missing);
  json["detached"] = json_of(job.detached);
  json["lost"] = json_of(job.lost);
  json["left"] = json_of(job.left);
  json["waited_for"] = json_of(job.waited_for);
  json["stuck"] = json_of(stuck_ranks_of(job, now));
  json["lateness"] = json_of(job.lateness);
  json["fragments"] = job.progress.fragments;
  json["fragments_as_floats"] = job.progress.as_floats;
  json["fragments_summed_in_switches"] = job.progress.in_least_packets;
  json["has_switches"] = job.has_switches;
  return json;
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

Json json_of(const SwitchConfig& config, std::size_t held, const WantedByJob& wanted) {
  Wanted of_all;
  for (const auto& [share, of_job] : wanted) of_all.add(of_job.gradients, of_job.collided);
  return {{"total", config.aggregators},
          {"held", held},
          {"enough", enough_aggregators(config.aggregators, of_all)},
          {"partitions", config.sharing.partitions},
          {"quota", config.sharing.quota},
          {"places", config.places},
          {"first_come", config.sharing.first_come}};
}

Json json_of(const Tree& tree, const atp_share& share, const SwitchNode& node, const Wanted& wanted,
             Instant now) {
  Json json = job_head(tree.job(), tree.streams().first, tree.streams().count, tree.world_size());
  json["parent"] = to_string(tree.parent());
  json["values_per_fragment"] = tree.value_count();
  // While the job is joining, those whose JOIN has come count; later only members do.
  json["joined"] =
      json_of(tree.joining() ? tree.known() : tree.membership().attached() - tree.left());
  json["detached"] = json_of(tree.membership().detached());
  json["left"] = json_of(tree.left());
  json["stuck"] = json_of(stuck_ranks_of(tree, now));
  json["lateness"] = json_of(tree.lateness().of_ranks());
  const std::size_t children = tree.membership().children().size();
  json["children"] = children;
  const Demand& demand = tree.demand();
  const Shares& shares = node.shares();
  const std::uint32_t limit = shares.limit(tree.share());
  json["aggregators"] = {{"first", share.first},
                         {"size", share.size},
                         {"quota", share.quota},
                         {"limit", limit},
                         {"part", shares.part(tree.share())},
                         {"weight", shares.weight(tree.share())},
                         {"held", share.held},
                         {"gradients", demand.found + demand.collided},
                         {"collided", demand.collided},
                         {"gain", gain_of(wanted, children, limit, node.config().aggregators)}};
  return json;
}

// On a node with keys.
void add_tenant(Json& job, const Keyring* keys, const JobKey& key) {
  if (keys != nullptr) job["tenant"] = keys->name_of(key.tenant);
}

// The nonzero counters with the prefix "drop_", without the prefix.
Json drops_of(const CounterSnapshot& counters) {
  constexpr std::string_view kPrefix = "drop_";
  Json drops = Json::object();
  for (const auto& [name, value] : counters) {
    const std::string_view text = name;
    if (value > 0 && text.starts_with(kPrefix)) {
      drops[std::string(text.substr(kPrefix.size()))] = value;
    }
  }
  return drops;
}

Json head(std::string_view role, std::string_view listen, bool draining) {
  return {{"role", role},
          {"listen", listen},
          {"version", kProgramVersion},
          {"wire_version", ATP_VERSION},
          {"time_s", seconds_since_1970()},
          {"draining", draining}};
}

// Appended one after another: operator[] would look for each name among those before it.
Json json_of(const CounterSnapshot& counters) {
  Json json = Json::object();
  auto& members = json.get_ref<Json::object_t&>();
  members.reserve(counters.size());
  for (const auto& [name, value] : counters) members.emplace_back(std::string(name), value);
  return json;
}

StatusDocument finish(Json json, Json jobs, const CounterSnapshot& counters) {
  json["jobs"] = std::move(jobs);
  json["drops"] = drops_of(counters);
  json["counters"] = json_of(counters);
  return std::make_shared<const Json>(std::move(json));
}

}  // namespace

std::string to_json_line(double time_s, std::string_view role, const CounterSnapshot& counters) {
  return Json{{"time_s", time_s}, {"role", role}, {"counters", json_of(counters)}}.dump() + "\n";
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

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

std::vector<StuckRanks> stuck_ranks_of(const Server& server, Instant now) {
  std::vector<StuckRanks> all;
  server.for_each_job(now, [&](const JobSummary& job) {
    if (auto stuck = stuck_ranks_of(job, now)) all.push_back(std::move(*stuck));
  });
  return all;
}

std::vector<StuckRanks> stuck_ranks_of(const SwitchNode& node, Instant now) {
  std::vector<StuckRanks> all;
  node.for_each_tree([&](const Tree& tree, const atp_share&) {
    if (auto stuck = stuck_ranks_of(tree, now)) all.push_back(std::move(*stuck));
  });
  return all;
}

std::size_t jobs_of(const Server& server, Instant now) {
  std::set<JobKey> jobs;
  server.for_each_job(now, [&](const JobSummary& job) { jobs.insert(job.terms.key); });
  return jobs.size();
}

std::size_t jobs_of(const SwitchNode& node, Instant) {
  std::set<JobKey> jobs;
  node.for_each_tree([&](const Tree& tree, const atp_share&) { jobs.insert(tree.job()); });
  return jobs.size();
}

std::string stuck_text(const StuckRanks& stuck) {
  constexpr std::size_t kMost = 8;
  std::string text = stuck.ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(stuck.ranks.size(), kMost); ++i) {
    const auto& [rank, home] = stuck.ranks[i];
    text += fmt::format("{}{}{}", i == 0 ? "" : ", ", rank,
                        home.unset() ? "" : " (" + host_text(home) + ")");
  }
  if (stuck.ranks.size() > kMost) text += fmt::format(" and {} others", stuck.ranks.size() - kMost);
  if (!stuck.description.empty()) text += " in " + stuck.description;
  return text;
}

std::string failure_text(const JobFailure& failure) {
  const std::string who =
      fmt::format("rank {}{}", static_cast<std::uint32_t>(failure.rank),
                  failure.home.unset() ? "" : " (" + host_text(failure.home) + ")");
  return failure.cause.empty() ? who + " was lost: nothing came from it for a lease"
                               : fmt::format("{} left: {}", who, failure.cause.view());
}

StatusDocument status_of(std::string_view role, std::string_view listen, const Server& server,
                         Instant now, const CounterSnapshot& counters, const Keyring* keys) {
  const Counters<ServerCounter>& own = server.counters();
  Json json = head(role, listen, server.draining());
  json["fragments"] = own[ServerCounter::kFragmentsCompleted];
  json["fragments_summed_in_switches"] = own[ServerCounter::kFragmentsCompletedInLeastPackets];
  json["fragments_as_floats"] = own[ServerCounter::kFragmentsCompletedFloat];
  Json jobs = Json::array();
  bool has_switches = own[ServerCounter::kFragmentsCompletedInLeastPackets] > 0;
  server.for_each_job(now, [&](const JobSummary& job) {
    jobs.push_back(json_of(job, now));
    add_tenant(jobs.back(), keys, job.terms.key);
    has_switches |= job.has_switches;
  });
  json["has_switches"] = has_switches;
  json["failures"] = Json::array();
  for (const JobFailure& failure : server.failures()) {
    const std::chrono::duration<double> ago = now - failure.at;
    json["failures"].push_back({{"job", failure.job.job},
                                {"incarnation", failure.job.incarnation},
                                {"rank", static_cast<std::uint32_t>(failure.rank)},
                                {"why", failure_text(failure)},
                                {"ago_s", ago.count()},
                                {"since_s", seconds_since_1970() - ago.count()}});
    add_tenant(json["failures"].back(), keys, failure.job);
  }
  return finish(std::move(json), std::move(jobs), counters);
}

StatusDocument status_of(std::string_view role, std::string_view listen, const SwitchNode& node,
                         Instant now, const CounterSnapshot& counters, const Keyring* keys) {
  const Counters<SwitchCounter>& own = node.counters();
  Json json = head(role, listen, node.draining());
  const WantedByJob wanted = wanted_by_job(node);
  json["aggregators"] = json_of(node.config(), node.aggregators_in_use(), wanted);
  json["sums_completed"] = own[SwitchCounter::kCompleteSumsSent];
  json["gradients_summed"] = own[SwitchCounter::kGradientsSummed];
  json["collisions"] = own[SwitchCounter::kCollisions];
  Json jobs = Json::array();
  node.for_each_tree([&](const Tree& tree, const atp_share& share) {
    jobs.push_back(json_of(tree, share, node, wanted.at(tree.share()), now));
    add_tenant(jobs.back(), keys, tree.job());
  });
  return finish(std::move(json), std::move(jobs), counters);
}

}  // namespace atp
