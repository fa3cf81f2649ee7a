#include "atp/config/site/site.h"

#include <vector>

#include "atp/config/text/quantity.h"
#include "atp/config/text/words.h"

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

Result<std::uint32_t> Site::find_host(std::string_view host_name) const {
  std::vector<std::string_view> names;
  for (const SiteHost& host : hosts) {
    if (host.name == host_name) return static_cast<std::uint32_t>(names.size());
    names.push_back(host.name);
  }
  return Error{place.file + " has no host " + shown(host_name) + "; " + hint(host_name, names)};
}

std::string endpoint_text(const std::string& address, std::uint16_t port) {
  const bool is_ipv6 = address.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

void check_bandwidth(const SiteLink& link, const Place& place, std::string_view kind) {
  if (link.bandwidth > 0) return;
  throw FileError(place, "its bandwidth is missing, expected " + std::string(kBandwidthExpected) +
                             "; add it here, or links." + std::string(kind) + " for all");
}

void check_uplinks(const Site& site) {
  for (const SiteRack& rack : site.racks) {
    std::string circle = rack.name;
    std::optional<std::uint32_t> at = rack.above;
    for (std::size_t steps = 0; at; at = site.racks[*at].above) {
      circle += " > " + site.racks[*at].name;
      if (&site.racks[*at] == &rack) {
        throw FileError(rack.place, "its uplink leads back to itself (" + circle +
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
