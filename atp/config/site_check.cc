#include "atp/config/site_check.h"

#include <vector>

namespace atp {
namespace {

struct Listener {
  std::string endpoint;
  const Place* place;
};

void check_port(const SiteHost& host, std::uint16_t port, const Place& place,
                std::vector<Listener>& listeners) {
  const std::string endpoint = endpoint_text(host.address, port);
  for (const Listener& other : listeners) {
    if (other.endpoint != endpoint) continue;
    throw FileError(place, "listens on " + endpoint + " as " + other.place->key + " (line " +
                               std::to_string(other.place->line) +
                               ") does; give one of the two another port");
  }
  listeners.push_back({endpoint, &place});
}

}  // namespace

void check_uplinks(const Site& site) {
  for (const SiteRack& rack : site.racks) {
    std::string way = rack.name;
    std::optional<std::uint32_t> at = rack.above;
    for (std::size_t steps = 0; at; at = site.racks[*at].above) {
      way += " > " + site.racks[*at].name;
      if (&site.racks[*at] == &rack) {
        throw FileError(rack.place, "its uplink leads back to itself (" + way +
                                        "); let the uplink of one of them lead to core");
      }
      if (++steps == site.racks.size()) break;  // a circle of others, which they will report
    }
  }
}

void check_ports(const Site& site) {
  std::vector<Listener> listeners;
  for (const SiteRack& rack : site.racks) {
    if (!rack.switch_node) continue;
    const SiteSwitch& node = *rack.switch_node;
    check_port(site.hosts[node.host], node.port, node.place, listeners);
  }
  for (const SiteServer& server : site.servers) {
    check_port(site.hosts[server.host], server.port, server.place, listeners);
  }
}

}  // namespace atp
