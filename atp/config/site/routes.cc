#include "atp/config/site/routes.h"

#include <algorithm>

#include "atp/wire/join.h"

namespace atp {
namespace {

constexpr std::size_t kMaxSwitches = Route::kMaxHops - 1;  // the server is a hop too

// The rack and all racks above it.
std::vector<std::uint32_t> racks_upward(const Site& site, std::uint32_t rack) {
  std::vector<std::uint32_t> racks;
  for (std::optional<std::uint32_t> at = rack; at; at = site.racks[*at].above) racks.push_back(*at);
  return racks;
}

// The racks from one to the other, both included.
std::vector<std::uint32_t> racks_between(const Site& site, std::uint32_t from, std::uint32_t to) {
  std::vector<std::uint32_t> up = racks_upward(site, from), down = racks_upward(site, to);
  // The route does not go above the rack where both paths meet.
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
  return endpoint_text(site.hosts[node.host].address, node.port, site.lanes);
}

std::string server_endpoint(const Site& site, std::uint32_t server) {
  const SiteServer& node = site.servers[server];
  return endpoint_text(site.hosts[node.host].address, node.port, site.lanes);
}

}  // namespace

std::vector<std::uint32_t> switches_between(const Site& site, std::uint32_t rack,
                                            std::uint32_t server) {
  const std::uint32_t to = site.hosts[site.servers[server].host].rack;
  std::vector<std::uint32_t> racks = racks_between(site, rack, to);
  std::erase_if(racks, [&site](std::uint32_t at) { return !site.racks[at].switch_node; });
  return racks;
}

std::vector<std::uint32_t> uplinks_between(const Site& site, std::uint32_t from, std::uint32_t to) {
  std::vector<std::uint32_t> up = racks_upward(site, from), down = racks_upward(site, to);
  while (!up.empty() && !down.empty() && up.back() == down.back()) {
    up.pop_back();
    down.pop_back();
  }
  up.insert(up.end(), down.rbegin(), down.rend());
  return up;
}

std::string route_text(const std::vector<std::vector<std::string>>& routes) {
  std::string text;
  for (const std::vector<std::string>& route : routes) {
    if (!text.empty()) text += ";";
    for (const std::string& hop : route) text += (&hop == &route.front() ? "" : ",") + hop;
  }
  return text;
}

std::string route_text(const Site& site, std::uint32_t host) {
  std::vector<std::vector<std::string>> routes(site.servers.size());
  for (std::uint32_t server = 0; server < site.servers.size(); ++server) {
    for (const std::uint32_t rack : switches_between(site, site.hosts[host].rack, server)) {
      routes[server].push_back(switch_endpoint(site, rack));
    }
    routes[server].push_back(server_endpoint(site, server));
  }
  return route_text(routes);
}

std::vector<std::uint32_t> hosts_above(const Site& site, std::uint32_t rack) {
  std::vector<std::uint32_t> hosts;
  for (std::uint32_t server = 0; server < site.servers.size(); ++server) {
    const std::vector<std::uint32_t> switches = switches_between(site, rack, server);
    const std::uint32_t host =
        switches.size() > 1 ? site.racks[switches[1]].switch_node->host : site.servers[server].host;
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  return hosts;
}

void check_routes(const Site& site) {
  for (std::uint32_t rack = 0; rack < site.racks.size(); ++rack) {
    for (std::uint32_t server = 0; server < site.servers.size(); ++server) {
      const std::size_t switches = switches_between(site, rack, server).size();
      if (switches <= kMaxSwitches) continue;
      throw FileError(site.racks[rack].place,
                      "has " + std::to_string(switches) +
                          " switches on the route to the server on " +
                          site.hosts[site.servers[server].host].name + ", expected at most " +
                          std::to_string(kMaxSwitches) + "; leave some racks without a switch");
    }
  }
}

}  // namespace atp
