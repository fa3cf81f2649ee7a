#include "atp/cli/node/report.h"

#include <fmt/core.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

#include "atp/cli/command/command.h"
#include "atp/driver/udp/address.h"

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

// What both kinds of job have first.
Json job_head(const JobKey& key, std::uint16_t first_stream, std::uint16_t streams,
              std::size_t world_size) {
  return {{"job", key.job},
          {"incarnation", key.incarnation},
          {"first_stream", first_stream},
          {"streams", streams},
          {"world_size", world_size}};
}

Json json_of(const JobSummary& job) {
  Json json =
      job_head(job.terms.key, job.terms.first_stream, job.terms.stream_count, job.terms.world_size);
  json["state"] = job.joining ? "joining" : "running";
  json["values_per_fragment"] = job.terms.value_count;
  json["joined"] = json_of(job.joined);
  json["missing"] = json_of(job.missing);
  json["detached"] = json_of(job.detached);
  json["lost"] = json_of(job.lost);
  json["left"] = json_of(job.left);
  json["waited_for"] = json_of(job.waited_for);
  json["fragments"] = job.progress.fragments;
  json["fragments_as_floats"] = job.progress.as_floats;
  json["fragments_summed_in_switches"] = job.progress.in_least_packets;
  json["has_switches"] = job.has_switches;
  return json;
}

Json json_of(const Tree& tree, const atp_share& share) {
  Json json = job_head(tree.job(), tree.streams().first, tree.streams().count, tree.world_size());
  json["parent"] = to_string(tree.parent());
  json["values_per_fragment"] = tree.value_count();
  json["joined"] = json_of(tree.membership().attached() - tree.left());
  json["detached"] = json_of(tree.membership().detached());
  json["left"] = json_of(tree.left());
  json["aggregators"] = {
      {"first", share.first}, {"size", share.size}, {"quota", share.quota}, {"held", share.held}};
  return json;
}

// The counters whose names begin with drop_, without it, if they have risen.
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

Json head(std::string_view role, std::string_view listen) {
  return {{"role", role},
          {"listen", listen},
          {"version", kProgramVersion},
          {"wire_version", ATP_VERSION}};
}

std::string finish(Json json, Json jobs, const CounterSnapshot& counters) {
  json["jobs"] = std::move(jobs);
  json["drops"] = drops_of(counters);
  json["counters"] = Json::object();
  for (const auto& [name, value] : counters) json["counters"][std::string(name)] = value;
  return json.dump();
}

}  // namespace

std::string to_json_line(double time_s, std::string_view role, const CounterSnapshot& counters) {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const auto& [name, value] : counters) values[std::string(name)] = value;
  return nlohmann::ordered_json{{"time_s", time_s}, {"role", role}, {"counters", values}}.dump() +
         "\n";
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

std::string status_text_of(std::string_view role, std::string_view listen, const Server& server,
                           Instant now, const CounterSnapshot& counters) {
  const Counters<ServerCounter>& own = server.counters();
  Json json = head(role, listen);
  json["fragments"] = own[ServerCounter::kFragmentsCompleted];
  json["fragments_summed_in_switches"] = own[ServerCounter::kFragmentsCompletedInLeastPackets];
  json["fragments_as_floats"] = own[ServerCounter::kFragmentsCompletedFloat];
  Json jobs = Json::array();
  bool has_switches = own[ServerCounter::kFragmentsCompletedInLeastPackets] > 0;
  server.for_each_job(now, [&](const JobSummary& job) {
    jobs.push_back(json_of(job));
    has_switches |= job.has_switches;
  });
  json["has_switches"] = has_switches;
  return finish(std::move(json), std::move(jobs), counters);
}

std::string status_text_of(std::string_view role, std::string_view listen, const SwitchNode& node,
                           Instant, const CounterSnapshot& counters) {
  const Counters<SwitchCounter>& own = node.counters();
  Json json = head(role, listen);
  json["aggregators"] = {{"total", node.config().aggregators},
                         {"held", node.aggregators_in_use()},
                         {"partitions", node.config().sharing.partitions},
                         {"quota", node.config().sharing.quota}};
  json["sums_completed"] = own[SwitchCounter::kCompleteSumsSent];
  json["gradients_summed"] = own[SwitchCounter::kGradientsSummed];
  json["collisions"] = own[SwitchCounter::kCollisions];
  Json jobs = Json::array();
  node.for_each_tree(
      [&](const Tree& tree, const atp_share& share) { jobs.push_back(json_of(tree, share)); });
  return finish(std::move(json), std::move(jobs), counters);
}

}  // namespace atp
