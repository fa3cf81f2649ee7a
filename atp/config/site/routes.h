#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "atp/config/site/site.h"

// The routes of a site's packets. Uplinks make racks and core a tree. A route follows this tree
// from a host's rack to a server's rack, through the switches of all racks on the path. So all
// routes to one server form a tree too, with the server as its root.

namespace atp {

// The racks whose switches are between a rack and a server, the first hop first.
std::vector<std::uint32_t> switches_between(const Site& site, std::uint32_t rack,
                                            std::uint32_t server);

// The racks whose uplinks a packet between hosts of the two racks crosses.
std::vector<std::uint32_t> uplinks_between(const Site& site, std::uint32_t from, std::uint32_t to);

// The hosts to which the rack's switch sends sums: those of the next switches and servers.
std::vector<std::uint32_t> hosts_above(const Site& site, std::uint32_t rack);

// Refuses routes with more switches than Route can hold.
void check_routes(const Site& site);

// The value of ATP_ROUTE for the addresses on the route to each server, the server's last:
// "10.0.1.1:5501,10.0.3.1:5501,10.0.3.2:5500", with ";" between the routes to different servers.
std::string route_text(const std::vector<std::vector<std::string>>& routes);

// The value of ATP_ROUTE for the ranks on a host.
std::string route_text(const Site& site, std::uint32_t host);

}  // namespace atp
