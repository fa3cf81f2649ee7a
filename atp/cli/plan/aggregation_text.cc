#include "atp/cli/plan/aggregation_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "atp/cli/plan/plan_text.h"
#include "atp/planner/text.h"

namespace atp {
namespace {

using Json = nlohmann::ordered_json;
using planner::number_text;

// In the units of network equipment and of most cluster files.
std::string bits_text(double bytes_per_second) {
  const double bits = bytes_per_second * 8;
  return bits < 1e9 ? fmt::format("{:.4g} Mbit/s", bits / 1e6)
                    : fmt::format("{:.4g} Gbit/s", bits / 1e9);
}

// Added hosts are numbered after those of the file.
bool is_added(const Site& site, const SiteBottleneck& link) {
  return link.host && *link.host >= site.hosts.size();
}

// " (switch, server)": the services that load the host's link, in the cluster as it stands.
std::string services_text(const Site& site, std::uint32_t host) {
  std::string text;
  const auto add = [&text](const char* service) {
    text += (text.empty() ? " (" : ", ") + std::string(service);
  };
  for (const SiteRack& rack : site.racks) {
    if (rack.switch_node && rack.switch_node->host == host) add("switch");
  }
  for (const SiteServer& server : site.servers) {
    if (server.host == host) {
      add("server");
      break;
    }
  }
  return text.empty() ? text : text + ")";
}

std::string link_name(const Site& site, const SiteBottleneck& link) {
  if (link.rack) return "uplink of rack " + site.racks[*link.rack].name;
  if (is_added(site, link)) {
    return fmt::format("aggregation host {}", *link.host - site.hosts.size() + 1);
  }
  return "host " + site.hosts[*link.host].name + services_text(site, *link.host);
}

// "the link of host a1"
std::string the_link(const Site& site, const SiteBottleneck& link) {
  return (link.rack ? "the " : "the link of ") + link_name(site, link);
}

const AggregationRow& row_of(const AggregationPlan& plan, std::uint32_t hosts) {
  return plan.forecast.rows[hosts];
}

// The cluster as it stands, then the requested rows.
std::vector<const AggregationRow*> shown_rows(const AggregationPlan& plan) {
  std::vector<const AggregationRow*> rows;
  if (plan.forecast.rows.empty()) return rows;
  rows.push_back(&plan.forecast.rows.front());
  for (const std::uint32_t hosts : plan.shown) rows.push_back(&row_of(plan, hosts));
  return rows;
}

std::string no_link_text(const AggregationPlan& plan) {
  const std::string& host = plan.site.hosts[plan.placement.hosts.front().host].name;
  if (plan.placement.world_size == 1) return "A single rank has nothing to sum.";
  return fmt::format(
      "All {} ranks are on host {}: they sum in shared memory and use no link, with or without "
      "aggregation hosts.",
      plan.placement.world_size, host);
}

// The tensors that a ring would send over the link that bounds the sums.
double of_ring(const AggregationPlan& plan, const SiteBottleneck& link) {
  const LinkTraffic ring = ring_traffic(plan.site, plan.placement);
  if (link.rack) return ring.uplinks[*link.rack];
  return is_added(plan.site, link) ? 0 : ring.hosts[*link.host];
}

std::string tensors_text(double tensors) {
  return tensors == 1 ? "a rank's tensor once"
                      : fmt::format("{} times a rank's tensor", number_text(tensors));
}

std::string bound_text(const AggregationPlan& plan, const AggregationRow& row) {
  const double ring = of_ring(plan, row.bound);
  const std::string text =
      fmt::format("{} carries {} in the network, ", the_link(plan.site, row.bound),
                  tensors_text(row.bound.tensors));
  if (ring == 0) return text + "nothing in a ring";
  if (number_text(ring) == number_text(row.bound.tensors)) {
    return text + "as in a ring, whose packets have smaller headers";
  }
  return text + (ring == 1 ? "once" : number_text(ring) + " times") + " in a ring";
}

std::string wider_text(const AggregationPlan& plan, const WiderLinks& wider) {
  std::vector<std::string_view> names;
  names.reserve(wider.hosts.size());
  for (const std::uint32_t host : wider.hosts) names.push_back(plan.site.hosts[host].name);
  return fmt::format("In-network summing would be faster if {} had more than {}.",
                     names.size() == 1
                         ? fmt::format("the link of {}", names.front())
                         : fmt::format("each of the links of {}", fmt::join(names, ", ")),
                     bits_text(wider.bandwidth));
}

std::string as_it_stands_text(const AggregationPlan& plan) {
  const AggregationForecast& forecast = plan.forecast;
  const AggregationRow& row = forecast.rows.front();
  if (forecast.is_faster(row)) {
    return fmt::format("As the cluster stands, in-network summing is faster than a ring{}.",
                       forecast.is_line_rate(row) ? ", at the ranks' line rate" : "");
  }
  const std::string text =
      fmt::format("As the cluster stands, a ring is faster: {}.", bound_text(plan, row));
  const auto wider = links_to_beat_ring(plan.site, plan.placement, forecast);
  return wider ? text + " " + wider_text(plan, *wider) : text;
}

std::string hosts_text(std::uint32_t hosts) {
  return fmt::format("R = {} aggregation host{}", hosts, hosts == 1 ? "" : "s");
}

// The bound of the fastest sums. Among equally fast numbers of hosts the largest is used: with
// fewer, the added hosts' own links may be just as full as the lasting bottleneck.
std::string lasting_bound_text(const AggregationPlan& plan) {
  const AggregationForecast& forecast = plan.forecast;
  const AggregationRow& best = forecast.best();
  const AggregationRow& last = forecast.rows.back();
  if (last.hosts == best.hosts || forecast.ratio(last) < forecast.ratio(best) * (1 - 1e-9)) {
    return fmt::format("with R = {}, {}", best.hosts, bound_text(plan, best));
  }
  return fmt::format("with R = {} or more, {}", best.hosts, bound_text(plan, last));
}

std::string crossover_text(const AggregationPlan& plan, std::uint32_t faster) {
  const AggregationForecast& forecast = plan.forecast;
  const std::string begin = fmt::format(
      "With R = {} or more aggregation hosts, in-network summing is faster than a ring", faster);
  const auto line_rate = forecast.line_rate_from();
  if (line_rate == faster) return begin + ", at the ranks' line rate.";
  if (line_rate) {
    return begin + fmt::format("; with R = {} it reaches the ranks' line rate.", *line_rate);
  }
  return begin + fmt::format("; {}.", lasting_bound_text(plan));
}

std::string with_hosts_text(const AggregationPlan& plan) {
  const AggregationForecast& forecast = plan.forecast;
  const AggregationRow& best = forecast.best();
  const AggregationRow& now = forecast.rows.front();
  if (forecast.is_faster(now) && forecast.ratio(now) >= forecast.ratio(best) * (1 - 1e-9)) {
    return "Aggregation hosts do not improve on that.";
  }
  if (const auto faster = forecast.faster_from()) return crossover_text(plan, *faster);
  const std::uint32_t most = forecast.rows.back().hosts;
  if (forecast.is_faster(best)) {
    return fmt::format(
        "With {}, in-network summing is faster than a ring, but not with every number up to {}.",
        hosts_text(best.hosts), most);
  }
  return fmt::format(
      "No number of aggregation hosts up to {} makes in-network summing faster than a ring: {}.",
      most, lasting_bound_text(plan));
}

Json link_json(const Site& site, const SiteBottleneck& link, double bytes) {
  return {{"seconds", link.seconds_per_byte * bytes},
          {"link", link_name(site, link)},
          {"tensors", link.tensors},
          {"bits_per_s", link.bandwidth * 8}};
}

Json row_json(const AggregationPlan& plan, const AggregationRow& row) {
  Json json = {{"aggregation_hosts", row.hosts}, {"with_switches", row.with_switches}};
  json.update(link_json(plan.site, row.bound, plan.bytes));
  json["ring_over_ours"] = plan.forecast.ratio(row);
  return json;
}

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

std::string aggregation_heading(const AggregationPlan& plan) {
  const JobPlacement& placement = plan.placement;
  std::string text = fmt::format(
      "{}{} on {}; all-reduce of {} of float32 ({:.0f} bytes)\n",
      plan.site.name.empty() ? "" : plan.site.name + ": ", counted(placement.world_size, "rank"),
      counted(placement.hosts.size(), "host"), bytes_for_people(plan.bytes), plan.bytes);
  if (plan.forecast.rows.empty()) return text;
  const SiteBottleneck& ring = plan.forecast.ring;
  return text + fmt::format("A ring takes {}: {} carries {} at {}.\n",
                            duration_for_people(ring.seconds_per_byte * plan.bytes),
                            the_link(plan.site, ring), tensors_text(ring.tensors),
                            bits_text(ring.bandwidth));
}

TextTable aggregation_table(const AggregationPlan& plan) {
  TextTable table({"aggregation hosts", "switches", "time", "ring/ours", "fullest link", "tensors",
                   "bandwidth"});
  for (const AggregationRow* row : shown_rows(plan)) {
    const SiteBottleneck& bound = row->bound;
    table.add({row->hosts == 0 ? "as it stands" : std::to_string(row->hosts),
               row->with_switches ? "the file's" : "none",
               duration_for_people(bound.seconds_per_byte * plan.bytes),
               fmt::format("{:.2f}", plan.forecast.ratio(*row)), link_name(plan.site, bound),
               number_text(bound.tensors), bits_text(bound.bandwidth)});
  }
  return table;
}

std::vector<std::string> aggregation_verdict(const AggregationPlan& plan) {
  if (plan.forecast.rows.empty()) return {no_link_text(plan)};
  return {as_it_stands_text(plan), with_hosts_text(plan)};
}

TextTable aggregation_csv(const AggregationPlan& plan) {
  TextTable table({"aggregation_hosts", "with_switches", "seconds", "ring_seconds",
                   "ring_over_ours", "link", "tensors", "bits_per_s"});
  for (const AggregationRow* row : shown_rows(plan)) {
    const SiteBottleneck& bound = row->bound;
    table.add({std::to_string(row->hosts), row->with_switches ? "true" : "false",
               fmt::format("{}", bound.seconds_per_byte * plan.bytes),
               fmt::format("{}", plan.forecast.ring.seconds_per_byte * plan.bytes),
               fmt::format("{}", plan.forecast.ratio(*row)), link_name(plan.site, bound),
               fmt::format("{}", bound.tensors), fmt::format("{}", bound.bandwidth * 8)});
  }
  return table;
}

std::string aggregation_json(const AggregationPlan& plan, int indent) {
  const AggregationForecast& forecast = plan.forecast;
  Json json = {{"name", plan.site.name},
               {"ranks", plan.placement.world_size},
               {"hosts", plan.placement.hosts.size()},
               {"bytes", plan.bytes}};
  Json rows = Json::array();
  for (const AggregationRow* row : shown_rows(plan)) rows.push_back(row_json(plan, *row));
  const bool uses_links = !forecast.rows.empty();
  json["ring"] = uses_links ? link_json(plan.site, forecast.ring, plan.bytes) : Json(nullptr);
  json["line_rate_seconds"] = forecast.line_rate * plan.bytes;
  json["rows"] = rows;
  json["faster_from"] = or_null(forecast.faster_from());
  json["line_rate_from"] = or_null(forecast.line_rate_from());
  json["verdict"] = aggregation_verdict(plan);
  return json.dump(indent);
}

}  // namespace atp
