#include "atp/cli/status_report.h"

#include <nlohmann/json.hpp>

#include "atp/driver/udp/address.h"

namespace atp {
namespace {

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
  json["fragments"] = job.progress.fragments;
  json["fragments_summed_in_switches"] = job.progress.by_one_packet;
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
          {"version", ATP_VERSION},
          {"wire_version", ATP_VERSION_1}};
}

std::string finish(Json json, Json jobs, const CounterSnapshot& counters) {
  json["jobs"] = std::move(jobs);
  json["drops"] = drops_of(counters);
  json["counters"] = Json::object();
  for (const auto& [name, value] : counters) json["counters"][std::string(name)] = value;
  return json.dump();
}

}  // namespace

std::string status_text_of(std::string_view role, std::string_view listen, const Server& server,
                           Instant now, const CounterSnapshot& counters) {
  const Counters<ServerCounter>& own = server.counters();
  Json json = head(role, listen);
  json["fragments"] = own[ServerCounter::kFragmentsCompleted];
  json["fragments_summed_in_switches"] = own[ServerCounter::kFragmentsCompletedByOnePacket];
  json["fragments_as_floats"] = own[ServerCounter::kFragmentsCompletedFloat];
  Json jobs = Json::array();
  server.for_each_job(now, [&](const JobSummary& job) { jobs.push_back(json_of(job)); });
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
