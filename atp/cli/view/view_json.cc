#include "atp/cli/view/view_json.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "atp/cli/command/command.h"
#include "atp/cli/status/status_json.h"

namespace atp {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(NodePresence presence) {
  switch (presence) {
    case NodePresence::kUnknown: return "unknown";
    case NodePresence::kUp: return "up";
    case NodePresence::kDead: return "dead";
    case NodePresence::kSilent: return "silent";
    case NodePresence::kRefuses: return "refuses";
    case NodePresence::kStrange: return "strange";
  }
  return "";
}

const char* name_of(RankState state) {
  switch (state) {
    case RankState::kJoined: return "joined";
    case RankState::kLeft: return "left";
    case RankState::kDetached: return "detached";
    case RankState::kStraggler: return "straggler";
    case RankState::kMissing: return "missing";
    case RankState::kStuck: return "stuck";
    case RankState::kLost: return "lost";
  }
  return "";
}

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

Json json_of(const NodeRates& rates) {
  return {{"in_bits", rates.in_bits},
          {"out_bits", rates.out_bits},
          {"sums", rates.sums},
          {"goodput_bits", rates.goodput_bits},
          {"share_summed", or_null(rates.share_summed)},
          {"share_collided", or_null(rates.share_collided)},
          {"refused_packets", rates.refused_packets},
          {"lost_packets", rates.lost_packets}};
}

Json json_of(const NodeView& node) {
  return {{"name", node.name},
          {"role", node.role},
          {"address", node.address},
          {"host", node.host},
          {"is_asked", node.is_asked},
          {"state", name_of(node.presence)},
          {"since_s", node.since_s},
          {"problem", node.problem},
          {"version", node.version},
          {"aggregators", node.aggregators},
          {"aggregators_held", node.aggregators_held},
          {"jobs", node.jobs},
          {"restarts", node.restarts},
          {"rates", node.rates ? json_of(*node.rates) : Json()}};
}

Json json_of(const RankView& rank) {
  Json json{{"rank", rank.rank},
            {"state", name_of(rank.state)},
            {"host", rank.host},
            {"via", or_null(rank.via)}};
  if (!rank.delay) return json;
  Json delay = to_json(*rank.delay);
  delay.erase("rank");
  json.update(delay);
  return json;
}

Json json_of(const JobView& job) {
  Json ranks = Json::array();
  for (const RankView& rank : job.ranks) ranks.push_back(json_of(rank));
  return {{"job", job.job},
          {"incarnation", job.incarnation},
          {"world_size", job.world_size},
          {"tenant", job.tenant.empty() ? Json() : Json(job.tenant)},
          {"state", !job.is_known    ? "unknown"
                    : job.is_joining ? "joining"
                                     : "running"},
          {"waited_s", job.waited_s},
          {"waits_in", job.waits_in.empty() ? Json() : Json(job.waits_in)},
          {"sums", job.sums},
          {"goodput_bits", job.goodput_bits},
          {"share_summed", or_null(job.share_summed)},
          {"ranks", std::move(ranks)}};
}

}  // namespace

std::string view_json(const std::string& site_name, const Watch& watch, double interval_s) {
  const ClusterView& view = watch.view();
  Json nodes = Json::array(), links = Json::array(), jobs = Json::array();
  Json problems = Json::array(), events = Json::array();
  for (const NodeView& node : view.nodes) nodes.push_back(json_of(node));
  for (const LinkView& link : view.links) {
    links.push_back({{"from", link.from}, {"to", link.to}, {"is_used", link.is_used}});
  }
  for (const JobView& job : view.jobs) jobs.push_back(json_of(job));
  for (const Finding& problem : watch.problems()) problems.push_back(to_json(problem));
  for (const ClusterEvent& event : watch.events()) {
    events.push_back(to_json(event.finding));
    events.back().update({{"number", event.number}, {"time_s", event.time_s}});
  }
  const Json document{{"name", site_name},
                      {"version", kProgramVersion},
                      {"time_s", view.time_s},
                      {"interval_s", interval_s},
                      {"problems", std::move(problems)},
                      {"nodes", std::move(nodes)},
                      {"links", std::move(links)},
                      {"jobs", std::move(jobs)},
                      {"events", std::move(events)}};
  constexpr bool kAsciiOnly = true;
  return document.dump(-1, ' ', kAsciiOnly);
}

}  // namespace atp
