#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "atp/config/site/site.h"

// The routes of a site's packets. Racks and the core are a tree by their uplinks; a route leads
// from a host's rack along this tree to a server's rack, through the switches of all racks on it.
// So all routes to one server are a tree too, with the server as its root.

namespace atp {

// The racks whose switches stand between a rack and a server, the first hop first.
std::vector<std::uint32_t> switches_between(const Site& site, std::uint32_t rack,
                                            std::uint32_t server);

// The racks whose uplinks a packet between hosts of the two racks crosses.
std::vector<std::uint32_t> uplinks_between(const Site& site, std::uint32_t from, std::uint32_t to);

// The hosts to which the rack's switch sends sums, those of next switches and servers, each once.
std::vector<std::uint32_t> hosts_above(const Site& site, std::uint32_t rack);

// Refuses routes of more switches than Route holds.
void check_routes(const Site& site);

// ATP_ROUTE, from the addresses on the route to each server, the server's last:
// "10.0.1.1:5501,10.0.3.1:5501,10.0.3.2:5500", and a ";" before the route to another server.
std::string route_text(const std::vector<std::vector<std::string>>& routes);

// That of the ranks on a host.
std::string route_text(const Site& site, std::uint32_t host);

}  // namespace atp
