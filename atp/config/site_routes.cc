#include "atp/config/site_routes.h"

#include <algorithm>

namespace atp {
namespace {

constexpr std::size_t kMostSwitches = 7;  // a route has eight endpoints, the server among them

// The rack and all above it.
std::vector<std::uint32_t> way_up(const Site& site, std::uint32_t rack) {
  std::vector<std::uint32_t> way;
  for (std::optional<std::uint32_t> at = rack; at; at = site.racks[*at].above) way.push_back(*at);
  return way;
}

// From rack to rack, both included.
std::vector<std::uint32_t> way_between(const Site& site, std::uint32_t from, std::uint32_t to) {
  std::vector<std::uint32_t> up = way_up(site, from), down = way_up(site, to);
  // What both pass above the rack where they meet is no part of the way.
  while (up.size() > 1 && down.size() > 1 && up[up.size() - 2] == down[down.size() - 2]) {
    up.pop_back();
    down.pop_back();
  }
  if (up.back() == down.back()) down.pop_back();
  up.insert(up.end(), down.rbegin(), down.rend());
  return up;
}

std::string switch_endpoint(const Site& site, std::uint32_t rack) {
  const SiteSwitch& node = *site.racks[rack].switch_node;
  return endpoint_text(site.hosts[node.host].address, node.port);
}

std::string server_endpoint(const Site& site, std::uint32_t server) {
  const SiteServer& node = site.servers[server];
  return endpoint_text(site.hosts[node.host].address, node.port);
}

}  // namespace

std::vector<std::uint32_t> switches_between(const Site& site, std::uint32_t rack,
                                            std::uint32_t server) {
  const std::uint32_t to = site.hosts[site.servers[server].host].rack;
  std::vector<std::uint32_t> way = way_between(site, rack, to);
  std::erase_if(way, [&site](std::uint32_t at) { return !site.racks[at].switch_node; });
  return way;
}

std::string route_text(const Site& site, std::uint32_t host) {
  std::string text;
  for (std::uint32_t server = 0; server < site.servers.size(); ++server) {
    if (server > 0) text += ";";
    for (const std::uint32_t rack : switches_between(site, site.hosts[host].rack, server)) {
      text += switch_endpoint(site, rack) + ",";
    }
    text += server_endpoint(site, server);
  }
  return text;
}

std::vector<std::uint32_t> hosts_above(const Site& site, std::uint32_t rack) {
  std::vector<std::uint32_t> hosts;
  for (std::uint32_t server = 0; server < site.servers.size(); ++server) {
    const std::vector<std::uint32_t> way = switches_between(site, rack, server);
    const std::uint32_t host =
        way.size() > 1 ? site.racks[way[1]].switch_node->host : site.servers[server].host;
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  return hosts;
}

void check_routes(const Site& site) {
  for (std::uint32_t rack = 0; rack < site.racks.size(); ++rack) {
    for (std::uint32_t server = 0; server < site.servers.size(); ++server) {
      const std::size_t switches = switches_between(site, rack, server).size();
      if (switches <= kMostSwitches) continue;
      throw FileError(site.racks[rack].place,
                      "has " + std::to_string(switches) + " switches on its way to the server on " +
                          site.hosts[site.servers[server].host].name + ", expected at most " +
                          std::to_string(kMostSwitches) + "; leave some racks without a switch");
    }
  }
}

}  // namespace atp
