#include "atp/config/interconnect/site_interconnect.h"

#include <algorithm>

#include "atp/config/site/link_traffic.h"
#include "atp/config/site/routes.h"
#include "atp/config/site/site_reader.h"

namespace atp {
namespace {

using planner::Aggregation;
using planner::Interconnect;
using planner::Level;

constexpr const char* kAdvice = "write `levels` for the planner (docs/plan/planner.md)";
// The programs' initial window of 256 KiB (docs/inside/protocol §5), in fragments.
constexpr std::uint32_t kWindow = 256 * 1024 / (kPacketOwnHeaderBytes + kPacketPayloadBytes);

// The hosts of a rack that have ranks.
using Members = std::vector<const SiteHost*>;

std::vector<Members> members_by_rack(const Site& site) {
  std::vector<Members> by_rack(site.racks.size());
  for (const SiteHost& host : site.hosts) {
    if (host.ranks > 0) by_rack[host.rack].push_back(&host);
  }
  std::erase_if(by_rack, [](const Members& members) { return members.empty(); });
  return by_rack;
}

// "1 host", "2 hosts"
std::string counted(std::size_t number, const std::string& noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

void check_equal(const Site& site, const std::vector<Members>& racks) {
  if (racks.empty()) throw FileError(site.place, "no host has ranks; give some of them `ranks`");
  for (const Members& members : racks) {
    const SiteRack& rack = site.racks[members.front()->rack];
    if (members.size() != racks.front().size()) {
      throw FileError(rack.place,
                      "has " + counted(members.size(), "host") + " with ranks, but the first has " +
                          std::to_string(racks.front().size()) +
                          ", and the planner supports only racks of equal size; " + kAdvice);
    }
    for (const SiteHost* host : members) {
      if (host->ranks == racks.front().front()->ranks) continue;
      throw FileError(host->place,
                      "has " + counted(host->ranks, "rank") + ", but the first host has " +
                          std::to_string(racks.front().front()->ranks) +
                          ", and the planner supports only hosts of equal size; " + kAdvice);
    }
    if (rack.above && racks.size() > 1) {
      throw FileError(rack.place,
                      std::string("leads to another rack, and the planner derives no levels "
                                  "from racks above racks; ") +
                          kAdvice);
    }
  }
}

void take_slower(SiteLink& slowest, const SiteLink& link, const Place& place, const char* kind) {
  check_bandwidth(link, place, kind);
  if (slowest.bandwidth == 0 || link.bandwidth < slowest.bandwidth) {
    slowest.bandwidth = link.bandwidth;
  }
  slowest.latency_s = std::max(slowest.latency_s, link.latency_s);
}

SiteLink slowest_host(const std::vector<Members>& racks) {
  SiteLink slowest;
  for (const Members& members : racks) {
    for (const SiteHost* host : members) take_slower(slowest, host->link, host->place, "host");
  }
  return slowest;
}

SiteLink slowest_uplink(const Site& site, const std::vector<Members>& racks) {
  SiteLink slowest;
  for (const Members& members : racks) {
    const SiteRack& rack = site.racks[members.front()->rack];
    take_slower(slowest, rack.uplink, rack.place, "rack");
  }
  return slowest;
}

// Servers count as dedicated unless each is on a host with ranks.
void set_servers(const Site& site, Aggregation& aggregation) {
  const auto works = [&site](const SiteServer& server) {
    return site.hosts[server.host].ranks > 0;
  };
  aggregation.server_hosts = static_cast<std::uint32_t>(site.servers.size());
  if (std::all_of(site.servers.begin(), site.servers.end(), works)) {
    aggregation.placement = planner::ServerPlacement::kColocated;
    return;
  }
  SiteLink slowest;
  for (const SiteServer& server : site.servers) {
    take_slower(slowest, site.hosts[server.host].link, site.hosts[server.host].place, "host");
  }
  aggregation.server_bandwidth = {slowest.bandwidth};
}

// Switches are programs: all that they receive and send crosses their hosts' links.
SiteLink slowest_switch(const Site& site) {
  SiteLink slowest;
  for (const SiteRack& rack : site.racks) {
    if (!rack.switch_node) continue;
    const SiteHost& host = site.hosts[rack.switch_node->host];
    take_slower(slowest, host.link, host.place, "host");
  }
  return slowest;
}

// The aggregation of the weakest of the racks' switches; absent unless every rack has one.
std::optional<Aggregation> aggregation_of(const Site& site, const std::vector<Members>& racks) {
  Aggregation aggregation{.payload_bytes = kPacketPayloadBytes,
                          .header_bytes = kPacketHeaderBytes,
                          .wire_bytes_per_value = 4};
  for (const Members& members : racks) {
    const std::optional<SiteSwitch>& node = site.racks[members.front()->rack].switch_node;
    if (!node) return std::nullopt;
    if (node->aggregators == 0) continue;
    aggregation.window = kWindow;
    aggregation.slots =
        aggregation.slots == 0 ? node->aggregators : std::min(aggregation.slots, node->aggregators);
  }
  set_servers(site, aggregation);
  aggregation.switch_bandwidth = {slowest_switch(site).bandwidth};
  return aggregation;
}

// Sums over the racks' fullest uplink, if each rack has one group. Tensors are spread over all
// servers: the parts for servers in other racks leave the rack, and other racks' parts for its own
// servers enter it.
double uplink_sums(const Site& site, const std::vector<Members>& racks) {
  std::vector<double> share(site.racks.size());
  for (const SiteServer& server : site.servers) {
    share[site.hosts[server.host].rack] += 1.0 / static_cast<double>(site.servers.size());
  }
  double fullest = 0;
  std::vector<bool> works(site.racks.size());
  for (const Members& members : racks) works[members.front()->rack] = true;
  for (std::size_t rack = 0; rack < site.racks.size(); ++rack) {
    const double own = works[rack] ? 1 : 0;
    const double others = static_cast<double>(racks.size()) - own;
    fullest = std::max(fullest, own * (1 - share[rack]) + others * share[rack]);
  }
  return fullest;
}

// For the level of hosts: the rack's switch sums, and all racks share the servers.
Aggregation aggregation_inside(const Site& site, const std::vector<Members>& racks,
                               Aggregation aggregation) {
  aggregation.shared_by = static_cast<std::uint32_t>(racks.size());
  aggregation.uplink_sums = uplink_sums(site, racks);
  return aggregation;
}

// For the level above the racks, which gets sums from the racks' switches. If there is no further
// switch, the servers add them up.
Aggregation aggregation_above(const Site& site, const std::vector<Members>& racks,
                              Aggregation aggregation) {
  for (const Members& members : racks) {
    for (std::uint32_t server = 0; server < site.servers.size(); ++server) {
      const std::uint32_t rack = members.front()->rack;
      if (site.hosts[site.servers[server].host].rack == rack) continue;
      if (switches_between(site, rack, server).size() >= 2) continue;
      aggregation.fallback_share = 1;
      aggregation.switch_bandwidth = {};  // there is no switch
    }
  }
  return aggregation;
}

Level level_of(const char* name, std::size_t count, const SiteLink& link, double latency_s) {
  return {.name = name,
          .count = static_cast<std::uint32_t>(count),
          .bandwidth = {link.bandwidth},
          .latency_s = latency_s};
}

}  // namespace

Interconnect interconnect_of(const Site& site) {
  const std::vector<Members> racks = members_by_rack(site);
  check_equal(site, racks);
  const SiteLink host = slowest_host(racks);
  const std::optional<Aggregation> aggregation = aggregation_of(site, racks);
  Interconnect interconnect{.name = site.name};
  if (racks.size() > 1) {
    const SiteLink uplink = slowest_uplink(site, racks);
    interconnect.levels.push_back(
        level_of("rack", racks.size(), uplink, 2 * (uplink.latency_s + host.latency_s)));
    if (aggregation) {
      interconnect.levels.back().aggregation = aggregation_above(site, racks, *aggregation);
    }
  }
  interconnect.levels.push_back(level_of("host", racks[0].size(), host, 2 * host.latency_s));
  interconnect.levels.back().aggregation = aggregation;
  if (aggregation && racks.size() > 1) {
    interconnect.levels.back().aggregation = aggregation_inside(site, racks, *aggregation);
  }
  if (const std::uint32_t ranks = racks[0][0]->ranks; ranks > 1) {
    if (site.rank_link.bandwidth == 0) {
      throw FileError(site.place,
                      "hosts have several ranks, but the bandwidth between these is missing; add "
                      "links.rank.bandwidth");
    }
    interconnect.levels.push_back(
        level_of("rank", ranks, site.rank_link, 2 * site.rank_link.latency_s));
  }
  return interconnect;
}

}  // namespace atp
