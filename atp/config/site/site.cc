#include "atp/config/site/site.h"

#include <vector>

#include "atp/config/text/quantity.h"
#include "atp/config/text/words.h"

namespace atp {
namespace {

struct Listener {
  std::uint32_t host;
  std::uint16_t port;  // and the lanes after it
  const Place* place;
};

void check_port(const Site& site, std::uint32_t host, std::uint16_t port, const Place& place,
                std::vector<Listener>& listeners) {
  if (port + site.lanes - 1 > 65535) {
    throw FileError(place, "needs " + std::to_string(site.lanes) +
                               " ports, one per lane, starting at " + std::to_string(port) +
                               ", but ports end at 65535; lower its port");
  }
  const std::string endpoint = endpoint_text(site.hosts[host].address, port, site.lanes);
  for (const Listener& other : listeners) {
    if (other.host != host || port + site.lanes <= other.port || other.port + site.lanes <= port) {
      continue;
    }
    throw FileError(place, "listens on " + endpoint + ", as does " + other.place->key + " (line " +
                               std::to_string(other.place->line) +
                               "); give one of the two a different port");
  }
  listeners.push_back({host, port, &place});
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

Result<std::uint32_t> Site::find_own_host(
    const std::function<bool(const std::string&)>& is_own) const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t host = 0; host < hosts.size(); ++host) {
    if (is_own(hosts[host].address)) found.push_back(host);
  }
  if (found.size() == 1) return found.front();
  return Error{"this machine has the addresses of " + std::to_string(found.size()) + " hosts of " +
               place.file + ", expected one; choose with --host NAME"};
}

std::string endpoint_text(const std::string& address, std::uint16_t port, std::uint32_t lanes) {
  const bool is_ipv6 = address.find(':') != std::string::npos;
  const std::string first = (is_ipv6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
  return lanes == 1 ? first : first + "-" + std::to_string(port + lanes - 1);
}

void check_bandwidth(const SiteLink& link, const Place& place, std::string_view kind) {
  if (link.bandwidth > 0) return;
  throw FileError(place, "its bandwidth is missing, expected " + std::string(kBandwidthExpected) +
                             "; add it here, or to links." + std::string(kind) + " for all");
}

void check_uplinks(const Site& site) {
  for (const SiteRack& rack : site.racks) {
    std::string circle = rack.name;
    std::optional<std::uint32_t> at = rack.above;
    for (std::size_t steps = 0; at; at = site.racks[*at].above) {
      circle += " > " + site.racks[*at].name;
      if (&site.racks[*at] == &rack) {
        throw FileError(rack.place, "its uplink leads back to itself (" + circle +
                                        "); connect the uplink of one of them to core");
      }
      if (++steps == site.racks.size()) break;  // a cycle of other racks, which these will report
    }
  }
}

void check_ports(const Site& site) {
  std::vector<Listener> listeners;
  for (const SiteRack& rack : site.racks) {
    if (!rack.switch_node) continue;
    const SiteSwitch& node = *rack.switch_node;
    check_port(site, node.host, node.port, node.place, listeners);
  }
  for (const SiteServer& server : site.servers) {
    check_port(site, server.host, server.port, server.place, listeners);
  }
}

}  // namespace atp
